"""`mpae name`, `search`, `outliers` and `serve`, as the real command."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pictures import draw_photo
from tiny_run import make_tiny_run

from mpae.prediction.part_names import PartNames

Command = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("looking")
    make_tiny_run(folder / "run")
    (folder / "photos").mkdir()
    for index in range(10):
        draw_photo(index).save(folder / "photos" / f"photo-{index:02d}.jpg")
    return folder


def test_names_from_the_command_line_to_every_file(place: Path, mpae: Command) -> None:
    run, out = place / "run", place / "out"
    named = mpae("name", run, "1=head", "2=head", "3-")
    assert named.returncode == 0, named.stderr
    assert "head" in named.stdout
    assert "hidden" in named.stdout
    wrong = mpae("name", run, "9=wing")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "no part '9'" in wrong.stderr
    assert mpae("name", run, "3+", "3=tail").returncode == 0
    assert mpae("name", run, "--undo").returncode == 0
    assert PartNames.load(run, 3).lookup() == [0, 1, 1, 0]
    done = mpae("predict", run, place / "photos", "--out", out, "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert [each["name"] for each in json.loads((out / "coco.json").read_text())["categories"]] == ["head"]

    photo = json.loads((out / "parts.jsonl").read_text().splitlines()[0])
    part = photo["parts"][0]["name"]
    found = mpae("search", out, photo["name"], "--part", part, "--top", "3")
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 3
    assert photo["name"] not in found.stdout
    draw_photo(0).save(place / "other.png")
    other = mpae("search", out, place / "photos" / photo["name"], "--part", part, "--top", "1")  # through the model
    assert other.stdout.split() == ["1.0000", photo["name"]] or float(other.stdout.split()[0]) > 0.99
    for words, sentence in ((("search", out, "photo-01.jpg", "--part", "wing"), "no part 'wing'"),
                            (("search", place, "photo-01.jpg", "--part", "1"), "no predictions"),
                            (("outliers", place / "none"), "No folder")):
        wrong = mpae(*words)
        assert wrong.returncode == 2
        assert sentence in wrong.stderr
    strange = mpae("outliers", out)
    assert strange.returncode == 0, strange.stderr
    assert strange.stdout


def test_the_page_is_served_until_ctrl_c(place: Path, start_mpae: Callable[..., subprocess.Popen],
                                         mpae: Command) -> None:
    process = start_mpae("serve", place / "run", place / "photos", "--port", "0")
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(address, timeout=60).status_code == 200
        state = httpx.get(f"{address}api/state", timeout=60).json()
        assert state["job"]["total"] == 10
        taken = mpae("serve", place / "run", "--port", address.rstrip("/").rpartition(":")[2])
        assert taken.returncode == 2
        assert "--port" in taken.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not list(place.rglob("*.part"))


def test_bad_starts_are_one_sentence(place: Path, mpae: Command, tmp_path: Path) -> None:
    for words, sentence in (((tmp_path / "none",), "No run folder"), ((place / "run", tmp_path), "No images")):
        done = mpae("serve", *words)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_address_for_others_has_a_token() -> None:
    from mpae.serve.server import address, listen

    assert address("192.0.2.1", 80, "word") == "http://192.0.2.1:80/?token=word"
    assert address("::1", 80, None) == "http://[::1]:80/"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        from mpae.errors import MPAEError

        with pytest.raises(MPAEError, match="--port"):
            listen("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(MPAEError, match="--host"):
            listen("192.0.2.1", 0)  # of no machine
