"""A tiny run, a folder of drawn photos, and their predictions: made once, copied where a test changes names."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pictures import draw_photo
from tiny_run import make_tiny_run

pytest.importorskip("starlette", reason="starlette is not installed: mpae[serve]")
pytest.importorskip("httpx", reason="httpx is not installed: the server's tests need it")

from starlette.testclient import TestClient

from mpae.run import Run
from mpae.serve import session as sessions
from mpae.serve.app import make_app
from mpae.serve.session import Session


@pytest.fixture(scope="session", autouse=True)
def no_head_start() -> Iterator[None]:
    """Nobody looks at the first photos here: the model is loaded at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "HEAD_START", 0)
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `run`, `photos` and, in the run, the predictions of the photos."""
    folder = tmp_path_factory.mktemp("serve")
    photos = folder / "photos <b>"
    (photos / "more").mkdir(parents=True)
    for index in range(14):
        draw_photo(index).save((photos / "more" if index % 3 == 0 else photos) / f"a&b {index:02d}.jpg")
    (photos / "torn.jpg").write_bytes(b"no image")
    make_tiny_run(folder / "run")
    session = Session(Run.open(folder / "run"), photos)
    session.start()
    wait_until(lambda: session.state in ("ready", "failed"))
    assert session.state == "ready", session.sentence
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """The same, to be changed: run folder copied, photos where they were."""
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path


@pytest.fixture
def session(made: Path, place: Path) -> Session:
    return Session(Run.open(place / "run"), made / "photos <b>")


@pytest.fixture
def client(session: Session) -> Iterator[TestClient]:
    yield from client_of(session)


@pytest.fixture(scope="session")
def reader(made: Path) -> Iterator[TestClient]:
    """One for all tests that change nothing."""
    yield from client_of(Session(Run.open(made / "run"), made / "photos <b>"))


def client_of(session: Session) -> Iterator[TestClient]:
    app = make_app(session, hosts=("testserver", "127.0.0.1"))
    with TestClient(app, headers={"x-mpae": "1"}) as client:
        wait_until(lambda: session.state in ("ready", "failed"))
        yield client


def wait_until(holds: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)
