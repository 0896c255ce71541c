"""The page in a real browser: drop, filter, name, join, undo, search, outliers, a phone's width, dark."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pictures import draw_photo

from mpae.prediction.part_names import PartNames
from mpae.run import Run
from mpae.serve.app import make_app
from mpae.serve.session import Session


@pytest.fixture
def address(session: Session) -> Iterator[str]:
    """The page, served as `mpae serve` does."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = make_app(session, hosts=("127.0.0.1", "localhost"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(timeout=30)


class Opened:
    """A page with what the browser complained of."""

    def __init__(self, browser: Any, address: str, width: int = 1400, scheme: str = "light"):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text)
                     if message.type == "error" and "status of 4" not in message.text else None)
        self.address = address

    def show(self, view: str) -> Any:
        self.page.goto(f"{self.address}#{view}")
        return self.page


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    found = Opened(browser, address)
    yield found
    assert found.complaints == []
    found.context.close()


# Functions, not expressions: these the page's own content security policy refuses to evaluate a second time.

def wait_for_search(page: Any) -> None:
    page.wait_for_function("() => fetch('/api/state').then(answer => answer.json()).then(state => state.measured)")
    page.reload()


def test_gallery_and_filter(opened: Opened) -> None:
    page = opened.show("photos")
    page.wait_for_selector(".tile path")
    assert page.locator(".tile").count() == 14
    assert page.locator(".count").inner_text() == "14 of 14 photos"
    page.wait_for_function("() => [...document.querySelectorAll('.tile')].every(tile => tile.title)")
    chip = page.locator(".chip").first
    name = chip.inner_text().strip()
    shown = page.evaluate("name => [...document.querySelectorAll('.tile')].filter("
                          "tile => tile.getAttribute('aria-label').includes(name)).length", name)
    chip.click()
    page.wait_for_function("count => document.querySelector('.count').textContent.startsWith(`${count} of`)", arg=shown)
    page.keyboard.press("Enter")  # the chip keeps the focus; now: photos that do not show it
    page.wait_for_function("count => document.querySelector('.count').textContent.startsWith(`${count} of`)",
                           arg=14 - shown)


def test_name_join_hide_and_undo(opened: Opened, place: Path) -> None:
    page = opened.show("parts")
    field = page.get_by_label("Name of part-01")
    field.fill("head")
    field.press("Enter")
    page.get_by_label("Name of head").wait_for()
    assert PartNames.load(place / "run", 3).name(1) == "head"
    page.get_by_label("Name of part-02").fill("head")  # a slip: told, not joined
    page.get_by_label("Name of part-02").press("Enter")
    page.get_by_role("alert").get_by_text("another part already").wait_for()
    page.locator('.part[data-part="2"] .grip').drag_to(page.locator('.part[data-part="1"]'))
    page.get_by_text("joined from 1, 2").wait_for()
    assert [part.members for part in PartNames.load(place / "run", 3).parts()] == [(1, 2), (3,)]
    page.get_by_role("button", name="Undo").click()
    page.get_by_label("Name of part-02").wait_for()
    page.get_by_label("Join part-03 with").select_option("2")
    page.get_by_text("joined from 2, 3").wait_for()
    page.locator('.part[data-part="2"] [data-kind=hide]').click()
    page.locator('.part.hidden-part[data-part="2"]').wait_for()
    assert PartNames.load(place / "run", 3).lookup() == [0, 1, 0, 0]


def test_two_pages_at_once(opened: Opened, browser: Any, address: str, place: Path) -> None:
    page = opened.show("parts")
    page.get_by_label("Name of part-01").wait_for()
    PartNames.load(place / "run", 3).rename(2, "wing").save(place / "run")
    page.get_by_label("Name of part-01").fill("head")
    page.get_by_label("Name of part-01").press("Enter")
    page.get_by_label("Name of wing").wait_for()  # what the other one did is here at once
    names = PartNames.load(place / "run", 3)
    told = page.get_by_role("alert").inner_text() if names.name(1) == "part-01" else ""
    assert names.name(2) == "wing"
    assert names.name(1) == "head" or "meanwhile" in told


def test_drop_and_search(opened: Opened, tmp_path: Path) -> None:
    page = opened.show("drop")
    wait_for_search(page)
    draw_photo(30).save(tmp_path / "dropped <i>.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    page.set_input_files("#files", [tmp_path / "dropped <i>.jpg", tmp_path / "broken.jpg"])
    page.locator(".result table").wait_for()
    assert "dropped <i>.jpg" in page.get_by_role("region", name="dropped <i>.jpg").inner_text()
    page.get_by_role("alert").get_by_text("cannot be read").wait_for()
    first = page.locator(".result tbody tr").first
    index = first.get_attribute("data-part")
    first.get_by_role("checkbox").uncheck()
    assert not page.locator(f'.result path[data-part="{index}"]').first.is_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download mask").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    first.get_by_role("button", name="Find photos").click()
    page.locator("dialog .results .tile path").first.wait_for()
    assert page.locator("dialog .results .tile").count() > 1


def test_search_from_a_photo_of_the_gallery(opened: Opened) -> None:
    page = opened.show("photos")
    wait_for_search(page)
    page.locator(".tile").first.click()
    page.locator("dialog table").wait_for()
    first = page.locator("dialog h2").get_attribute("title")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("first => document.querySelector('dialog h2').title !== first", arg=first)
    page.locator("dialog tbody tr").first.get_by_role("button").click()
    page.locator("dialog .results .tile").first.wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_arrow_keys_go_on_from_photo_to_photo(opened: Opened) -> None:
    page = opened.show("photos")
    wait_for_search(page)
    page.locator(".tile").first.click()
    page.locator("dialog table").wait_for()
    seen = [page.locator("dialog h2").get_attribute("title")]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        page.wait_for_function("last => document.querySelector('dialog h2').title !== last", arg=seen[-1])
        seen.append(page.locator("dialog h2").get_attribute("title"))
    assert len(set(seen[:3])) == 3
    assert seen[3] == seen[1]


def test_a_late_answer_does_not_replace_what_was_asked_for_after_it(opened: Opened) -> None:
    photos: list[Any] = []  # requests for one photo: the first goes on, the second waits
    opened.page.route("**/api/photo/*", lambda route: (photos.append(route), len(photos) == 1 and route.continue_()))
    page = opened.show("photos")  # a route made on an open page may miss the next request
    wait_for_search(page)
    page.locator(".tile").first.click()
    page.locator("dialog table").wait_for()
    with page.expect_request("**/api/photo/*"):
        page.get_by_label("Next photo").click()
    page.locator("dialog tbody tr").first.get_by_role("button").click()
    page.locator("dialog .results .tile").first.wait_for()
    assert len(photos) == 2
    with page.expect_response("**/api/photo/*"):
        photos[1].continue_()
    page.wait_for_timeout(300)
    assert page.locator("dialog .results .tile").first.is_visible()


def test_what_looks_wrong(opened: Opened) -> None:
    page = opened.show("wrong")
    wait_for_search(page)
    page.wait_for_selector(".tile, .empty")
    found = page.evaluate("fetch('/api/outliers').then(answer => answer.json())")
    assert page.locator(".tile").count() == len({each["row"] for each in found["outliers"]})  # a photo once


@pytest.mark.parametrize(("width", "scheme"), [(1400, "dark"), (390, "light"), (390, "dark")])
def test_widths_and_colours(browser: Any, address: str, width: int, scheme: str, tmp_path: Path) -> None:
    opened = Opened(browser, address, width, scheme)
    for view in ("photos", "parts", "wrong", "drop"):
        page = opened.show(view)
        page.wait_for_selector("main > *")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
        brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
        assert brightness > 200 if scheme == "light" else brightness < 60
        unnamed = page.evaluate("[...document.querySelectorAll('button, input:not([hidden]), select, a')].filter("
                                "node => !(node.getAttribute('aria-label') || node.textContent.trim())).length")
        assert unnamed == 0  # a screen reader can say each of them
    assert opened.complaints == []
    opened.context.close()


def test_without_photos_there_is_still_a_page(browser: Any, place: Path) -> None:
    session = Session(Run.open(place / "run"), None)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(session), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    opened = Opened(browser, f"http://127.0.0.1:{listening.getsockname()[1]}/")
    try:
        page = opened.show("")
        page.get_by_text("Drop photos here").wait_for()
        page.goto(f"{opened.address}#photos")
        page.get_by_text("No folder of photos").wait_for()
        assert opened.complaints == []
    finally:
        opened.context.close()
        server.should_exit = True
        thread.join(timeout=30)
