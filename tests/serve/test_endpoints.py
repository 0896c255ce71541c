"""Every endpoint: what it answers, and what it says to hostile paths, origins and files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from pictures import draw_photo
from PIL import Image
from starlette.testclient import TestClient

from mpae.errors import MPAEError
from mpae.prediction.part_names import PartNames
from mpae.run import Run
from mpae.serve import upload as uploading
from mpae.serve.app import make_app
from mpae.serve.session import Session

PATHS = ("/", "/page/main.js", "/api/state", "/api/photos", "/api/tiles?rows=0", "/api/photo/0", "/api/examples",
         "/api/outliers", "/api/search?row=0&part=1", "/thumbnail/0", "/photo/0", "/download/0/mask", "/coco.json")


def jpeg(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "JPEG")
    return content.getvalue()


def shown_part(client: TestClient, row: int = 0) -> int:
    return client.get(f"/api/photo/{row}").json()["parts"][0]["index"]


def test_the_page_and_its_files(reader: TestClient) -> None:
    page = reader.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in page.text.replace("http-equiv", "")  # nothing from outside
    for name in ("style.css", "main.js", "icon.svg"):
        found = reader.get(f"/page/{name}")
        assert found.status_code == 200
        assert found.headers["x-content-type-options"] == "nosniff"


def test_state_photos_and_tiles(reader: TestClient) -> None:
    state = reader.get("/api/state").json()
    assert (state["images"], state["numParts"], state["search"], state["measured"]) == (14, 3, True, True)
    assert [part["name"] for part in state["parts"]] == ["part-01", "part-02", "part-03"]
    rows = reader.get("/api/photos").json()["rows"]
    assert rows == list(range(14))
    tiles = reader.get("/api/tiles?rows=0,3,5").json()["tiles"]
    assert [tile["row"] for tile in tiles] == [0, 3, 5]
    assert all(tile["paths"][str(part["index"])].startswith("M") for tile in tiles for part in tile["parts"])
    assert tiles[0]["name"].endswith(".jpg")


def test_filters_keep_their_promise(reader: TestClient) -> None:
    for index in (1, 2, 3):
        with_it = reader.get(f"/api/photos?present={index}").json()["rows"]
        without = reader.get(f"/api/photos?absent={index}").json()["rows"]
        assert sorted(with_it + without) == list(range(14))
        for row in range(14):
            shows = index in [part["index"] for part in reader.get(f"/api/photo/{row}").json()["parts"]]
            assert shows == (row in with_it)


@pytest.mark.parametrize(("order", "key"), [("area", "share"), ("certainty", "certainty"), ("unusual", "unusual")])
def test_orders(reader: TestClient, order: str, key: str) -> None:
    part = shown_part(reader)
    rows = reader.get(f"/api/photos?order={order}&part={part}&descending=1").json()["rows"]
    values = [next(each[key] for each in reader.get(f"/api/photo/{row}").json()["parts"] if each["index"] == part)
              for row in rows]
    assert values == sorted(values, reverse=True)
    assert len(reader.get(f"/api/photos?order={order}").json()["rows"]) == 14


def test_search_finds_what_the_index_finds(client: TestClient, session: Session) -> None:
    part = shown_part(client)
    found = client.get(f"/api/search?row=0&part={part}&top=5").json()["matches"]
    assert 0 not in [match["row"] for match in found]
    index = session.shown.index
    assert index is not None
    expected = index.search(index.vector(0, part), part, top=5, leave_out=0)
    assert [match["row"] for match in found] == [match.image for match in expected]
    again = client.post("/api/search", json={"vector": index.vector(0, part).tolist(), "part": part, "top": 1})
    assert again.json()["matches"][0]["row"] == 0


def test_pictures_and_downloads(reader: TestClient) -> None:
    small = Image.open(io.BytesIO(reader.get("/thumbnail/0").content))
    assert (small.format, small.size) == ("JPEG", (96, 80))
    assert not small.getexif()
    assert Image.open(io.BytesIO(reader.get("/photo/0").content)).size == (96, 80)
    mask = Image.open(io.BytesIO(reader.get("/download/0/mask").content))
    assert (mask.mode, mask.size) == ("P", (96, 80))
    assert Image.open(io.BytesIO(reader.get("/download/0/overlay").content)).format == "JPEG"
    coco = reader.get("/download/0/coco").json()
    assert {each["category_id"] for each in coco["annotations"]} == set(np.unique(np.asarray(mask)).tolist()) - {0}
    assert reader.get("/download/0/coco").headers["content-disposition"].startswith("attachment")


def test_the_coco_file_has_names_joins_and_no_hidden_parts(client: TestClient, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    for change in ({"change": "name", "part": 1, "name": "head"}, {"change": "join", "part": 2, "into": 1},
                   {"change": "hide", "part": 3, "hidden": True}):
        revision = client.get("/api/state").json()["revision"]
        assert client.post("/api/parts", json={"revision": revision, **change}).status_code == 200
    (tmp_path / "coco.json").write_bytes(client.get("/coco.json").content)
    coco = COCO(str(tmp_path / "coco.json"))
    assert [category["name"] for category in coco.loadCats(coco.getCatIds())] == ["head"]
    assert len(coco.getImgIds()) == 14
    for row in range(14):
        mask = np.asarray(Image.open(io.BytesIO(client.get(f"/download/{row}/mask").content)))
        found = coco.loadAnns(coco.getAnnIds(imgIds=[row + 1]))
        assert len(found) == int(np.isin(mask, (1, 2)).any())
        for annotation in found:
            assert np.array_equal(coco.annToMask(annotation).astype(bool), np.isin(mask, (1, 2)))


def test_changes_undo_and_two_pages_at_once(client: TestClient, place: Path) -> None:
    named = client.post("/api/parts", json={"revision": 0, "change": "name", "part": 1, "name": " the  head "})
    assert named.json()["parts"][0]["name"] == "the head"
    assert PartNames.load(place / "run", 3).name(1) == "the head"
    late = client.post("/api/parts", json={"revision": 0, "change": "name", "part": 1, "name": "wing"})
    assert late.status_code == 409
    assert "meanwhile" in late.json()["sentence"]
    PartNames.load(place / "run", 3).rename(2, "wing").save(place / "run")  # as `mpae name` does
    state = client.get("/api/state").json()
    assert [part["name"] for part in state["parts"]] == ["the head", "wing", "part-03"]
    undone = client.post("/api/parts", json={"revision": state["revision"], "change": "undo"}).json()
    assert [part["name"] for part in undone["parts"]] == ["the head", "part-02", "part-03"]


@pytest.mark.parametrize(("change", "sentence"), [
    ({"change": "name", "part": 1, "name": "  "}, "empty"),
    ({"change": "name", "part": 1, "name": "Part-02"}, "name of another part"),
    ({"change": "name", "part": 9, "name": "x"}, "no part"), ({"change": "name", "part": "1", "name": "x"}, "expected"),
    ({"change": "join", "part": 1, "into": 1}, "itself"), ({"change": "split", "part": 1}, "nothing to split"),
    ({"change": "colour", "part": 1, "colour": "red;}"}, "no colour"), ({"change": "drop table"}, "Unknown change"),
    ({"change": "undo"}, "no change"), ({}, "Unknown change"),
    ({"change": "hide", "part": 1, "hidden": 1}, "expected")])
def test_bad_changes_are_sentences_and_change_nothing(reader: TestClient, made: Path, change: dict[str, object],
                                                      sentence: str) -> None:
    answer = reader.post("/api/parts", json={"revision": 0, **change})
    assert answer.status_code == 400
    assert sentence in answer.json()["sentence"]
    assert not (made / "run" / "parts.yaml").exists()


def test_a_dropped_photo(reader: TestClient) -> None:
    answer = reader.post("/api/upload", content=jpeg(draw_photo(3)), headers={"x-name": "../../a%2Fb.jpg"})
    found = answer.json()
    assert (found["name"], found["width"], found["height"]) == ("b.jpg", 96, 80)
    assert found["parts"]
    assert set(found["paths"]) == {str(part["index"]) for part in found["parts"]}
    part = found["parts"][0]["index"]
    match = reader.post("/api/search", json=found["vectors"][str(part)]).json()["matches"][0]
    assert match["similarity"] > 0.9
    assert len(found["coco"]["annotations"]) == len(found["parts"])


def test_bad_uploads_are_sentences_and_leave_nothing(reader: TestClient, made: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(made.rglob("*"))
    whole = jpeg(draw_photo(3))
    bomb = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(bomb, "PNG")
    for content in (b"", b"no image", whole[:300], bomb.getvalue(), b"<svg onload='alert(1)'/>", b"%PDF-1.4"):
        answer = reader.post("/api/upload", content=content, headers={"x-name": "x" * 5000})
        assert answer.status_code == 400
        assert "cannot be read" in answer.json()["sentence"]
    monkeypatch.setattr(uploading, "MAX_BYTES", 1000)
    monkeypatch.setattr(uploading.read_body, "__defaults__", (1000,))
    assert reader.post("/api/upload", content=whole).status_code == 413
    chunks = (whole[start:start + 100] for start in range(0, len(whole), 100))  # without a content-length
    assert reader.post("/api/upload", content=chunks).status_code == 413
    assert sorted(made.rglob("*")) == before


@pytest.mark.parametrize("path", [
    "/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/security.py", "/page//etc/passwd", "/page/", "/page/none.js",
    "/../../../etc/passwd", "/thumbnail/../../etc/passwd", "/thumbnail/-1", "/thumbnail/999999", "/thumbnail/1e3",
    "/photo/0x1", "/photo/99999999999999999999999", "/photo/%00", "/download/0/../../run/config.yaml",
    "/download/0/secret", "/download/99/mask", "/api/photo/14", "/api/tiles?rows=999", "/api/search?row=99&part=1",
    "/config.yaml",
    "/run/config.yaml", "/api", "/static/x"])
def test_hostile_paths_get_nothing(reader: TestClient, path: str) -> None:
    answer = reader.get(path)
    assert answer.status_code == 404
    assert "passwd" not in answer.text
    assert "import" not in answer.text


@pytest.mark.parametrize("query", ["rows=" + "1," * 5000, "rows=a,%00,-1,1.5", "rows=", "rows=%F0%9F%90%A6"])
def test_odd_numbers_are_left_out(reader: TestClient, query: str) -> None:
    assert len(reader.get(f"/api/tiles?{query}").json()["tiles"]) <= 120


@pytest.mark.parametrize("query", ["part=1", "row=0", "row=0&part=99", "row=0&part=x"])
def test_searches_that_make_no_sense(reader: TestClient, query: str) -> None:
    answer = reader.get(f"/api/search?{query}")
    assert answer.status_code in (400, 404)
    assert answer.json()["sentence"]


@pytest.mark.parametrize("content", [
    b"", b"[1]", b"{", b'{"vector": "x", "part": 1}', b'{"vector": [1, 2], "part": 1}',
    b'{"vector": [NaN], "part": 1}', b'{"vector": [1e999], "part": true}', b"[" * 9000])
def test_bad_json_is_a_sentence(reader: TestClient, content: bytes) -> None:
    for path in ("/api/search", "/api/parts"):
        answer = reader.post(path, content=content)
        assert answer.status_code == 400
        assert answer.json()["sentence"]


@pytest.mark.parametrize("headers", [
    {"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"}, {"x-mpae": ""}, {"origin": "http://testserver.evil.example"}])
def test_no_other_origin_changes_anything(reader: TestClient, made: Path, headers: dict[str, str]) -> None:
    change = {"revision": 0, "change": "name", "part": 1, "name": "head"}
    for path, content in (("/api/parts", json.dumps(change)), ("/api/upload", "x"), ("/api/search", "{}")):
        assert reader.post(path, content=content, headers=headers).status_code == 403
    assert not (made / "run" / "parts.yaml").exists()
    assert "access-control-allow-origin" not in reader.options("/api/parts", headers=headers).headers
    assert reader.put("/api/parts", content="x").status_code in (403, 405)


def test_another_name_for_this_machine_is_refused(reader: TestClient) -> None:
    for path in PATHS:
        assert reader.get(path, headers={"host": "evil.example:8765"}).status_code == 421


def test_with_a_token_nothing_goes_without_it(session: Session) -> None:
    with TestClient(make_app(session, token="secret word"), headers={"x-mpae": "1"}) as client:
        for path in PATHS:
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"cookie": "mpae-token=wrong"}).status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        assert client.post("/api/parts?token=secret%20word", json={}).status_code == 401
        opened = client.get("/?token=secret%20word")
        assert opened.status_code == 200
        assert "token" not in str(opened.url)
        assert client.get("/api/state").status_code == 200


def test_names_in_predictions_that_leave_the_folder_are_not_served(made: Path, place: Path) -> None:
    source = next((place / "run" / "predictions").iterdir())
    lines = [json.loads(line) for line in (source / "parts.jsonl").read_text().splitlines()]
    Image.new("RGB", (9, 9)).save(place / "secret.png")
    lines[0] |= {"name": "../" * 9 + str(place / "secret.png"), "file": "../../../config"}
    lines[1] |= {"name": str(place / "secret.png"), "file": str(place / "secret")}
    (source / "parts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with TestClient(make_app(Session(Run.open(place / "run"), source)), headers={"x-mpae": "1"}) as client:
        for row in (0, 1):
            for path in ("photo/{}", "thumbnail/{}", "download/{}/mask", "download/{}/overlay"):
                assert client.get("/" + path.format(row)).status_code == 404
        assert client.get("/photo/2").status_code == 200


def test_a_disk_that_refuses_is_told(client: TestClient, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mpae.prediction.part_names.write_text", full)
    answer = client.post("/api/parts", json={"revision": 0, "change": "hide", "part": 1, "hidden": True})
    assert answer.status_code == 500
    assert "No space left" in answer.json()["sentence"]
    assert client.get("/api/state").json()["revision"] == 0


def test_a_run_that_comes_with_mpae_is_not_written_to(made: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpae.assets.trained.RUNS", place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    session = Session(Run.open(place / "run"), made / "photos <b>")
    assert session.folder is not None
    assert session.folder.folder.is_relative_to(place / "cache")


def test_the_next_start_is_immediate_and_goes_on(made: Path, place: Path) -> None:
    again = Session(Run.open(place / "run"), made / "photos <b>")
    assert (again.done, len(again.shown.table)) == (14, 14)  # before any background work
    with TestClient(make_app(again)) as client:
        assert client.get("/api/state").json()["images"] == 14


def test_bad_starts_are_sentences(made: Path, place: Path) -> None:
    run = Run.open(place / "run")
    (place / "empty").mkdir()
    for images, sentence in ((place / "empty", "No images"), (place / "none", "No such folder")):
        with pytest.raises(MPAEError, match=sentence):
            Session(run, images)
    predictions = next((made / "run" / "predictions").iterdir())
    run.weights_file.write_bytes(run.weights_file.read_bytes() + b" ")
    with pytest.raises(MPAEError, match="another run"):
        Session(run, predictions)
    run.weights_file.unlink()
    with pytest.raises(MPAEError, match=r"no model\.safetensors"):
        Session(run, made / "photos <b>")
