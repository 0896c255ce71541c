"""Photos to try, where the user gave none."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tiny_run import make_run, tiny_settings

from mpae.config import resolve
from mpae.data.source import UnreadableImage
from mpae.run import Run
from mpae.serve.app import make_app
from mpae.serve.samples import COUNT, Samples
from mpae.serve.session import Session


@pytest.fixture
def run(tmp_path: Path, photos: Path) -> Run:
    """A run that was trained on the twelve photos."""
    return make_run(tmp_path / "run", resolve("laptop", None, tiny_settings(tmp_path) | {"data.root": str(photos)}))


def client_of(session: Session) -> TestClient:
    return TestClient(make_app(session), base_url="http://127.0.0.1")


def test_some_photos_of_the_training_are_offered(run: Run, photos: Path) -> None:
    with client_of(Session(run, None)) as client:
        found = client.get("/api/samples").json()
        assert len(found["samples"]) == len(set(found["samples"])) == COUNT
        assert set(found["samples"]) <= {path.name for path in photos.rglob("*.jpg")}
        assert client.get("/sample/0").content.startswith(b"\xff\xd8")
        for path in (f"/sample/{COUNT}", "/sample/99", "/preview.png"):
            assert client.get(path).status_code == 404


def test_where_they_are_gone_the_last_preview_is_shown(run: Run, photos: Path) -> None:
    photos.rename(photos.with_name("elsewhere"))
    run.previews.mkdir()
    for step in (0, 8):
        (run.previews / f"step-{step:06d}.png").write_bytes(b"\x89PNG %d" % step)
    with client_of(Session(run, None)) as client:
        assert client.get("/api/samples").json() == {"samples": [], "preview": True}
        assert client.get("/preview.png").content == b"\x89PNG 8"
    with pytest.raises(UnreadableImage, match="no such photo"):
        Samples(run).picture(0)


def test_others_see_no_more_than_they_were_given(run: Run) -> None:
    with client_of(Session(run, None, samples=False)) as client:
        assert client.get("/api/samples").json() == {"samples": [], "preview": False}
        assert client.get("/sample/0").status_code == client.get("/preview.png").status_code == 404
