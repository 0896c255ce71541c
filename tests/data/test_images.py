"""Every odd image is read right, every broken one refused with its reason, and nothing hangs or blows up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from broken_images import BOMB, FLAG, Manifest, encoded, flag, make_broken_images, png_header, quarters_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mpae.data import images
from mpae.data.images import decode, digest_of, read_picture, to_8_bit, turn_upright
from mpae.data.source import UnreadableImage

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_broken_images(tmp_path_factory.mktemp("broken") / "images")


def test_the_generator_makes_hundreds_of_both_kinds(files: Manifest) -> None:
    assert len(files.broken) >= 150
    assert len(files.sound) >= 150


def test_every_sound_file_is_read_right(files: Manifest) -> None:
    for name, expected in files.sound.items():
        picture = read_picture(files.folder / name, name)
        assert picture.name == name
        assert (picture.image.mode, picture.image.size) == ("RGB", expected.size), name
        found = np.array(quarters_of(picture.image), int)
        assert np.abs(found - np.array(expected.quarters)).max() <= expected.tolerance, (name, found)


def test_every_broken_file_is_refused_with_a_reason(files: Manifest) -> None:
    for name, fault in files.broken.items():
        reason = reason_against(files.folder / name)
        assert reason is not None, (name, fault)
        assert 3 < len(reason) <= 200, name
        assert reason.isprintable(), name


def reason_against(path: Path) -> str | None:
    try:
        read_picture(path, path.name)
    except UnreadableImage as error:
        return str(error)
    return None


@pytest.mark.parametrize(("name", "reason"), [
    ("other/empty.jpg", "the file is empty"),
    ("other/html.jpg", "not an image"),
    ("other/postscript.png", "not an image"),  # Pillow would start Ghostscript
    ("truncated/50 % of baseline.jpg", "truncated"),
    ("bomb/declared.png", "more than 178,000,000"),
    ("links/dangling.png", "No such file"),
    ("links/self.jpg", "Too many levels"),
    ("special/pipe.jpg", "not a regular file"),
    ("special/endless.jpg", "not a regular file"),
    ("special/huge and sparse.jpg", "bytes are more than"),
])
def test_reasons_say_what_is_wrong(files: Manifest, name: str, reason: str) -> None:
    if name not in files.broken:
        pytest.skip("the file system cannot hold this file")
    with pytest.raises(UnreadableImage, match=reason):
        read_picture(files.folder / name, name)


def test_bombs_are_not_decoded(files: Manifest) -> None:
    """In a process of its own, whose memory may grow by 300 MB only; one bomb decoded would take 7.5 GB."""
    bombs = [str(files.folder / name) for name, fault in files.broken.items() if fault == "bomb"]
    assert len(bombs) >= 7
    script = """
import resource, sys
from pathlib import Path
from mpae.data.images import read_picture
from mpae.data.source import UnreadableImage
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    try:
        read_picture(Path(name), name)
    except UnreadableImage:
        continue
    sys.exit(f"{name} was read")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script, *bombs], capture_output=True, text=True, timeout=60,
                          check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300


def test_the_limit_of_pixels_is_checked_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    with pytest.raises(UnreadableImage, match=r"48 x 32 pixels are more than 1,000"):
        decode(encoded(flag(), "PNG"))
    with pytest.raises(UnreadableImage, match=r"60 x 60 pixels are more than 1,000"):
        decode(png_header(60, 60) + bytes(4) + b"IDAT")  # no pixels follow
    assert BOMB**2 > 178_000_000


def test_a_complete_image_is_read_though_its_file_is_cut() -> None:
    """The last chunk of a PNG and the padding of a BMP hold no pixels."""
    whole = encoded(flag(), "PNG")
    assert np.array_equal(np.asarray(decode(whole[:-12])), np.asarray(flag()))


def test_permission(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp" if os.path.isdir("/tmp") else None))
    folder.chmod(0o755)
    path = folder / "locked.png"
    path.write_bytes(encoded(flag(), "PNG"))
    path.chmod(0)
    superuser = hasattr(os, "geteuid") and os.geteuid() == 0
    try:
        if superuser:
            os.seteuid(65534)  # the superuser reads everything
        if os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            pytest.skip("this user may read everything")
        with pytest.raises(UnreadableImage, match="Permission denied"):
            read_picture(path, "locked.png")
    finally:
        if superuser:
            os.seteuid(0)
        path.unlink()
        folder.rmdir()


@pytest.mark.parametrize("name", ["gone.png", "a" * 300 + ".png", "zero\0byte.png"])
def test_paths_that_lead_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableImage):
        read_picture(tmp_path / name, name)


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_bytes(encoded(flag(), "PNG"))
    first, second = (read_picture(tmp_path / name, name) for name in ("a.png", "b.jpg"))
    assert first.digest == second.digest == digest_of(encoded(flag(), "PNG"))
    assert len(first.digest) == 32


def test_warnings_of_pillow_change_no_global_filter(files: Manifest) -> None:
    """Reading in many threads must leave the filters as they were; `catch_warnings` would not."""
    import warnings
    from concurrent.futures import ThreadPoolExecutor

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: read_picture(files.folder / name, name), list(files.sound)[:60]))
    assert warnings.filters == before


@pytest.mark.parametrize("values", [np.arange(65536, dtype=np.uint16).reshape(256, 256),
                                    np.array([[0, 1]], np.uint16), np.array([[0, 65535]], np.int32)])
def test_16_bit_values_are_scaled_as_such(values: np.ndarray) -> None:
    np.testing.assert_array_equal(to_8_bit(values), (values / 257).round())


@pytest.mark.parametrize(("values", "expected"), [
    ([0.0, 0.5, 1.0], [0, 128, 255]),
    ([0.0, 100.0, 255.0], [0, 100, 255]),
    ([-1.0, 0.0, 1.0], [0, 128, 255]),
    ([0.0, 5000.0, 10000.0], [0, 128, 255]),
    ([0.0, 0.0, 0.0], [0, 0, 0]),
    ([-3.0, -3.0, -3.0], [0, 0, 0]),
    ([-3e38, 1e29, 3e38], [0, 140, 255]),
])
def test_floats_are_scaled_by_their_range(values: list[float], expected: list[int]) -> None:
    assert to_8_bit(np.array([values], np.float32)).tolist() == [expected]


def test_damaged_metadata_do_not_lose_the_picture() -> None:
    class Damaged(Image.Image):
        def getexif(self) -> Image.Exif:
            raise SyntaxError("not a TIFF file")

    turn_upright(Damaged())


def test_a_picture_is_upright_or_as_stored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(flag(), "PNG", exif=exif)
    assert np.array_equal(np.asarray(decode(content, upright=False)), np.asarray(flag()))
    assert np.array_equal(np.asarray(decode(content)), np.rot90(np.asarray(flag()), -1))


def outcome(content: bytes) -> str:
    """The mode of the image, or the reason; any other exception is a bug."""
    try:
        return decode(content).mode
    except UnreadableImage as error:
        return str(error)


WHOLE = [encoded(flag(), format) for format in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(WHOLE), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=12),
       st.integers(0, 3000))
def test_any_damage_gives_an_image_or_a_reason(whole: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    content = bytearray(whole)
    for place, value in changes:
        content[place % len(content)] = value
    assert outcome(bytes(content[: len(content) - cut % 50]))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF....WEBP", b"BM",
                                                b"II*\0", b"MM\0*", b"GIF89a"]))
def test_any_bytes_give_an_image_or_a_reason(content: bytes, start: bytes) -> None:
    assert outcome(start + content)


def test_quarters_see_a_wrong_turn() -> None:
    """The test above could fail: a picture that is not turned upright has other quarters."""
    assert quarters_of(flag()) == FLAG
    assert quarters_of(flag().transpose(Image.Transpose.ROTATE_180)) != FLAG
