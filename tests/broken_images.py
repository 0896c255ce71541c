"""Broken and odd image files by the hundred, and what reading each must give.

Every sound file shows the same flag of four colours, whatever its format, mode, orientation or name: red,
green over blue, yellow; grey files show it in four greys. So one look at the middles of the four quarters
tells whether it was read right. Everything else must be refused, each file for a reason, and none may hang.
"""

from __future__ import annotations

import io
import os
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

Quarters = tuple[tuple[int, int, int], ...]  # colours: top left, top right, bottom left, bottom right

FLAG: Quarters = ((220, 30, 30), (30, 200, 30), (30, 30, 220), (230, 220, 40))
GREYS = (20, 90, 160, 240)
FORMATS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "BMP": "bmp", "TIFF": "tif"}
NEARLY_LOSSLESS: dict[str, dict] = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}
EXTENSIONS = ("jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff")
BOMB = 50_000  # pixels along the side


@dataclass(frozen=True)
class Sound:
    """What a readable file must give."""

    size: tuple[int, int]
    quarters: Quarters
    tolerance: int = 2


@dataclass
class Manifest:
    folder: Path
    sound: dict[str, Sound] = field(default_factory=dict)  # name, as a relative POSIX path
    broken: dict[str, str] = field(default_factory=dict)  # name -> what is wrong with it

    @property
    def names(self) -> list[str]:
        return sorted([*self.sound, *self.broken])


def make_broken_images(folder: Path) -> Manifest:
    """Write all of them below `folder`; what the file system cannot hold is left out."""
    manifest = Manifest(folder)
    for make in (_odd_modes, _orientations, _animations, _wrong_extensions, _odd_names, _odd_sizes):
        for name, content, sound in make():
            if _write(folder / name, content):
                manifest.sound[name] = sound
    for make_broken in (_truncated, _damaged_starts, _not_images, _bombs):
        for name, content, fault in make_broken():
            if _write(folder / name, content):
                manifest.broken[name] = fault
    _links(manifest)
    _not_files(manifest)
    return manifest


# -- the flag


def flag(width: int = 48, height: int = 32, colours: Quarters = FLAG) -> Image.Image:
    pixels = np.empty((height, width, 3), np.uint8)
    upper, left = slice(height // 2), slice(width // 2)
    lower, right = slice(height // 2, None), slice(width // 2, None)
    pixels[upper, left], pixels[upper, right], pixels[lower, left], pixels[lower, right] = colours
    return Image.fromarray(pixels)


def grey_flag(values: tuple[float, ...] = GREYS, dtype: type = np.uint8) -> np.ndarray:
    quarters = np.array(values, dtype).reshape(2, 2)
    return quarters.repeat(16, axis=0).repeat(24, axis=1)  # (32, 48)


def quarters_of(image: Image.Image) -> Quarters:
    """The colours in the middles of the four quarters."""
    width, height = image.size
    middles = [(x * width // 4, y * height // 4) for y in (1, 3) for x in (1, 3)]
    return tuple(image.getpixel(middle) for middle in middles)  # type: ignore[misc]


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def _grey(values: tuple[int, ...] = GREYS) -> Quarters:
    return tuple((value, value, value) for value in values)


# -- sound files

Made = Iterator[tuple[str, bytes, Sound]]


def _odd_modes() -> Made:
    size, colour = (48, 32), flag()
    plain, grey = Sound(size, FLAG), Sound(size, _grey())
    for extension, format in (("png", "PNG"), ("bmp", "BMP"), ("tif", "TIFF")):
        yield f"mode/rgb.{extension}", encoded(colour, format), plain
        yield f"mode/grey.{extension}", encoded(colour.convert("L"), format), Sound(size, _luma(colour))
        yield f"mode/palette.{extension}", encoded(colour.quantize(8), format), Sound(size, FLAG, 4)
        bits = Image.fromarray(grey_flag((0, 255, 255, 0))).convert("1")
        yield f"mode/1-bit.{extension}", encoded(bits, format), Sound(size, _grey((0, 255, 255, 0)))
    photo = NEARLY_LOSSLESS["JPEG"]
    yield "mode/rgb.jpg", encoded(colour, "JPEG", **photo), Sound(size, FLAG, 8)
    yield "mode/progressive.jpg", encoded(colour, "JPEG", progressive=True, **photo), Sound(size, FLAG, 8)
    yield "mode/grey.jpg", encoded(Image.fromarray(grey_flag()), "JPEG", quality=95), Sound(size, _grey(), 4)
    yield "mode/cmyk.jpg", encoded(colour.convert("CMYK"), "JPEG", **photo), Sound(size, FLAG, 12)
    yield "mode/cmyk.tif", encoded(colour.convert("CMYK"), "TIFF"), Sound(size, FLAG, 4)
    yield "mode/lossy.webp", encoded(colour, "WEBP", quality=95), Sound(size, FLAG, 16)
    yield "mode/lossless.webp", encoded(colour, "WEBP", lossless=True), plain
    yield "mode/deflate.tiff", encoded(colour, "TIFF", compression="tiff_deflate"), plain
    yield "mode/lzw.tiff", encoded(colour, "TIFF", compression="tiff_lzw"), plain
    yield from _sixteen_bits(size, grey)
    yield from _transparent(size)
    exif = b"Exif\x00\x00MM\x00*\xff\xff\xff\xff" + bytes(range(40))
    yield "mode/damaged exif.jpg", encoded(colour, "JPEG", exif=exif, **photo), Sound(size, FLAG, 8)
    ignored = Image.Exif()
    ignored[0x0112] = 77  # no such orientation
    yield "mode/orientation 77.jpg", encoded(colour, "JPEG", exif=ignored, **photo), Sound(size, FLAG, 8)


def _sixteen_bits(size: tuple[int, int], grey: Sound) -> Made:
    wide = grey_flag(tuple(value * 257 for value in GREYS), np.uint16)
    yield "mode/16-bit grey.png", encoded(Image.fromarray(wide), "PNG"), grey
    yield "mode/16-bit grey.tif", encoded(Image.fromarray(wide), "TIFF"), grey
    big_endian = Image.frombytes("I;16B", size, wide.astype(">u2").tobytes())
    yield "mode/16-bit grey big-endian.tif", encoded(big_endian, "TIFF"), grey
    dark = grey_flag((0, 100, 200, 250), np.uint16)
    yield "mode/16-bit grey, nearly black.png", encoded(Image.fromarray(dark), "PNG"), \
        Sound(size, _grey((0, 0, 1, 1)), 0)
    yield "mode/16-bit rgb.png", png_16_bit(np.asarray(flag()).astype(np.uint16) * 257), Sound(size, FLAG)
    whole = grey_flag(tuple(value * 257 for value in GREYS), np.int32)
    yield "mode/32-bit grey.tif", encoded(Image.fromarray(whole), "TIFF"), grey
    stretched = grey_flag((-1_000_000, 0, 500_000, 1_000_000), np.int32)
    yield "mode/32-bit signed.tif", encoded(Image.fromarray(stretched), "TIFF"), \
        Sound(size, _grey((0, 128, 191, 255)))
    unit = grey_flag(tuple(value / 255 for value in GREYS), np.float32)
    yield "mode/float 0..1.tif", encoded(Image.fromarray(unit), "TIFF"), grey
    yield "mode/float 0..255.tif", encoded(Image.fromarray(unit * 255), "TIFF"), grey
    odd = grey_flag((float("nan"), 0, 128, 255), np.float32)
    yield "mode/float with nan.tif", encoded(Image.fromarray(odd), "TIFF"), \
        Sound(size, _grey((0, 0, 128, 255)))
    infinite = grey_flag((float("-inf"), float("inf"), 0, 255), np.float32)
    yield "mode/float with infinities.tif", encoded(Image.fromarray(infinite), "TIFF"), \
        Sound(size, _grey((0, 0, 0, 255)))


def _transparent(size: tuple[int, int]) -> Made:
    """The bottom right quarter is clear, so white; the bottom left one is half clear."""
    alpha = Image.fromarray(grey_flag((255, 255, 128, 0)))
    colour = flag()
    clear = colour.copy()
    clear.putalpha(alpha)
    shown = Sound(size, (*FLAG[:2], (142, 142, 237), (255, 255, 255)))
    yield "mode/rgba.png", encoded(clear, "PNG"), shown
    yield "mode/rgba.tif", encoded(clear, "TIFF"), shown
    yield "mode/rgba.webp", encoded(clear, "WEBP", lossless=True), shown
    grey = Image.merge("LA", (Image.fromarray(grey_flag()), alpha))
    yield "mode/la.png", encoded(grey, "PNG"), Sound(size, _grey((20, 90, 207, 255)))
    palette = Image.fromarray(grey_flag((0, 1, 2, 3)))
    palette.putpalette([value for colour in FLAG for value in colour])  # turns the mode into P
    with_table = encoded(palette, "PNG", transparency=bytes([255, 255, 128, 0]))
    yield "mode/palette with alpha.png", with_table, shown
    keyed = encoded(colour, "PNG", transparency=FLAG[3])
    yield "mode/rgb with a clear colour.png", keyed, Sound(size, (*FLAG[:3], (255, 255, 255)))
    yield "mode/palette with a clear colour.png", encoded(palette, "PNG", transparency=3), \
        Sound(size, (*FLAG[:3], (255, 255, 255)))


def _luma(image: Image.Image) -> Quarters:
    return tuple((value, value, value) for value in quarters_of(image.convert("L")))  # type: ignore[arg-type]


STORED = {  # how a picture that is to be seen upright lies in a file with this orientation
    1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270,
}


def _orientations() -> Made:
    for number, turn in STORED.items():
        stored = flag() if turn is None else flag().transpose(turn)
        exif = Image.Exif()
        exif[0x0112] = number
        for format in ("JPEG", "PNG", "WEBP", "TIFF"):
            content = encoded(stored, format, exif=exif, **NEARLY_LOSSLESS.get(format, {}))
            yield f"orientation/{number}.{FORMATS[format]}", content, Sound((48, 32), FLAG, 8)


def _animations() -> Made:
    """The first picture counts."""
    others = [Image.new("RGB", (48, 32), (n, n, n)) for n in (0, 128, 255)]
    many = {"save_all": True, "append_images": others}
    sound = Sound((48, 32), FLAG, 8)
    yield "animated/apng.png", encoded(flag(), "PNG", **many), sound
    yield "animated/webp.webp", encoded(flag(), "WEBP", lossless=True, **many), sound
    yield "animated/gif as png.png", encoded(flag(), "GIF", **many), sound
    yield "animated/gif as jpg.jpg", encoded(flag(), "GIF", **many), sound
    yield "animated/pages.tiff", encoded(flag(), "TIFF", **many), sound
    yield "animated/stereo.jpg", encoded(flag(), "MPO", quality=95, subsampling=0, **many), sound


def _wrong_extensions() -> Made:
    for format, own in FORMATS.items():
        content = encoded(flag(), format, **NEARLY_LOSSLESS.get(format, {}))
        for extension in set(EXTENSIONS) - {own, f"{own}f", own.replace("jpg", "jpeg")}:
            yield f"extension/{format} as.{extension}", content, Sound((48, 32), FLAG, 8)


def _odd_names() -> Made:
    content = encoded(flag(), "PNG")
    names = [
        "a name with spaces", " leading space", "trailing space ", "new\nline", "two\n\nlines", "tab\tin it",
        "carriage\rreturn", "\U0001f426 bird", "\U0001f468\u200d\U0001f469\u200d\U0001f467 family", "鳥",
        "طائر", "é", "e\u0301", "'quotes' \"and more\"", "back\\slash", "%s %d {0} {name}", "[bold]mark[/up]", "[/]",
        "-dash", "--help",
        "semi;colon & and | pipe", "$(touch hacked)", "star * and ?", "#hash", "a" * 246, "鳥" * 83,
        os.fsdecode(b"not \xff utf-8 \xfe"), "\x1b[31mred", "\x7f", "a.b.c.d", "x.jpg",
    ]
    for name in names:
        yield f"names/{name}.png", content, Sound((48, 32), FLAG)
    for extension in ("PNG", "Png", "JPG", "JPEG", "TIFF", "WebP", "BMP"):
        yield f"names/case.{extension}", content, Sound((48, 32), FLAG)
    yield "names/fol der\n/\U0001f426/in.png", content, Sound((48, 32), FLAG)
    yield "names/folder.jpg/inside.png", content, Sound((48, 32), FLAG)


def _odd_sizes() -> Made:
    one: Quarters = (FLAG[0],) * 4
    for width, height in ((1, 1), (1, 2), (1, 5000), (5000, 1), (2, 3000), (3000, 2), (7, 1), (16383, 1)):
        for format, extension in FORMATS.items():
            content = encoded(Image.new("RGB", (width, height), FLAG[0]), format)
            yield f"size/{width}x{height}.{extension}", content, Sound((width, height), one, 12)


# -- broken files

Broken = Iterator[tuple[str, bytes, str]]


def whole_files() -> dict[str, bytes]:
    """Larger and noisy, so that a cut at a tenth falls into the pixels of some and the headers of others."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    grey, clear = image.convert("L"), image.copy()
    clear.putalpha(grey)
    return {
        "baseline.jpg": encoded(image, "JPEG"),
        "progressive.jpg": encoded(image, "JPEG", progressive=True),
        "grey.jpeg": encoded(grey, "JPEG"),
        "cmyk.jpg": encoded(image.convert("CMYK"), "JPEG"),
        "rgb.png": encoded(image, "PNG"),
        "rgba.png": encoded(clear, "PNG"),
        "palette.png": encoded(image.quantize(64), "PNG"),
        "16-bit.png": png_16_bit(noise.astype(np.uint16) * 257),
        "lossy.webp": encoded(image, "WEBP"),
        "lossless.webp": encoded(image, "WEBP", lossless=True),
        "rgb.bmp": encoded(image, "BMP"),
        "grey.bmp": encoded(grey, "BMP"),
        "raw.tif": encoded(image, "TIFF"),
        "deflate.tiff": encoded(image, "TIFF", compression="tiff_deflate"),
        "lzw.tiff": encoded(image, "TIFF", compression="tiff_lzw"),
    }


def _truncated() -> Broken:
    for name, content in whole_files().items():
        for tenth in range(1, 10):
            yield f"truncated/{tenth}0 % of {name}", content[: len(content) * tenth // 10], "truncated"


def _damaged_starts() -> Broken:
    for name, content in whole_files().items():
        yield f"damaged/zeros at the start of {name}", bytes(16) + content[16:], "damaged"


def _not_images() -> Broken:
    contents = {
        "empty": b"",
        "one byte": b"\xff",
        "html": b"<!DOCTYPE html><html><body><h1>404 Not Found</h1></body></html>",
        "text": b"This is not an image.\n" * 20,
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>',
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n",
        "pdf": b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n",
        "zip": b"PK\x03\x04" + bytes(60),
        "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00cposix\nsystem\n.",
        "random": np.random.default_rng(1).bytes(2000),
        "git lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n",
    }
    for kind, content in contents.items():
        for extension in EXTENSIONS:
            yield f"other/{kind}.{extension}", content, kind


def _bombs() -> Broken:
    """A few bytes that declare 50,000 x 50,000 pixels."""
    yield "bomb/declared.png", png_header(BOMB, BOMB) + _chunk(b"IDAT", zlib.compress(bytes(1000))), "bomb"
    yield "bomb/deflated.png", png_header(BOMB, BOMB) + _chunk(b"IDAT", _zeros(20_000_000)), "bomb"
    yield "bomb/wide.png", png_header(2**31 - 1, 1) + _chunk(b"IDAT", zlib.compress(bytes(10))), "bomb"
    small = encoded(flag(), "BMP")
    yield "bomb/declared.bmp", small[:18] + struct.pack("<ii", BOMB, BOMB) + small[26:], "bomb"
    small = encoded(flag(), "GIF")
    yield "bomb/gif.png", small[:6] + struct.pack("<HH", BOMB, BOMB) + small[10:], "bomb"
    small = encoded(flag(), "JPEG")
    size = small.index(b"\xff\xc0") + 5
    yield "bomb/declared.jpg", small[:size] + struct.pack(">HH", BOMB, BOMB) + small[size + 4 :], "bomb"
    for compression in (None, "tiff_deflate"):
        content = encoded(flag(), "TIFF", compression=compression)
        for tag, value in ((256, 48), (257, 32)):  # width and height
            for kind, form in ((3, "<HHIHH"), (4, "<HHII")):
                entry = struct.pack(form, tag, kind, 1, value, *([0] if kind == 3 else []))
                content = content.replace(entry, struct.pack("<HHII", tag, 4, 1, BOMB))
        yield f"bomb/{compression}.tif", content, "bomb"


# -- PNG by hand, for what Pillow does not write


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int, depth: int = 8) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0))


def png_16_bit(pixels: np.ndarray) -> bytes:
    """(H, W, 3) uint16 as a PNG of 16 bits a channel."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = png_header(pixels.shape[1], pixels.shape[0], 16)
    return header + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _zeros(count: int) -> bytes:
    packer = zlib.compressobj(9)
    block = bytes(1_000_000)
    return b"".join(packer.compress(block) for _ in range(count // len(block))) + packer.flush()


# -- what is no regular file


def _links(manifest: Manifest) -> None:
    folder = manifest.folder / "links"
    folder.mkdir(parents=True)
    (folder / "target.png").write_bytes(encoded(flag(), "PNG"))
    sound = Sound((48, 32), FLAG)
    manifest.sound["links/target.png"] = sound
    if _made(lambda: (folder / "to a file.png").symlink_to("target.png")):
        manifest.sound["links/to a file.png"] = sound
        for name, target in (("self.jpg", "self.jpg"), ("here.jpg", "there.jpg"), ("there.jpg", "here.jpg")):
            (folder / name).symlink_to(target)
            manifest.broken[f"links/{name}"] = "a loop of links"
        (folder / "dangling.png").symlink_to("nowhere.png")
        manifest.broken["links/dangling.png"] = "a link to nothing"
        (folder / "up").symlink_to("..", target_is_directory=True)  # loops of folders: nothing new in them
        (folder / "up.jpg").symlink_to(".", target_is_directory=True)


def _not_files(manifest: Manifest) -> None:
    folder = manifest.folder / "special"
    (folder / "empty folder.jpg").mkdir(parents=True)
    if hasattr(os, "mkfifo") and _made(lambda: os.mkfifo(folder / "pipe.jpg")):
        manifest.broken["special/pipe.jpg"] = "a pipe: opening it would wait for ever"
    if os.path.exists("/dev/zero") and _made(lambda: (folder / "endless.jpg").symlink_to("/dev/zero")):
        manifest.broken["special/endless.jpg"] = "a device that never ends"
    if hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.getcwd()
            os.chdir(folder)  # the path of a socket must be short
            try:
                listener.bind("socket.jpg")
                manifest.broken["special/socket.jpg"] = "a socket"
            except OSError:
                pass
            finally:
                os.chdir(here)
    huge = folder / "huge and sparse.jpg"
    if _made(lambda: _sparse(huge, 2**33)):
        manifest.broken["special/huge and sparse.jpg"] = "8 GB of zeros"
    locked = folder / "no permission.png"
    locked.write_bytes(encoded(flag(), "PNG"))
    locked.chmod(0)
    if os.access(locked, os.R_OK):  # the superuser reads everything
        manifest.sound["special/no permission.png"] = Sound((48, 32), FLAG)
    else:
        manifest.broken["special/no permission.png"] = "no permission"


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _made(make: Callable[[], object]) -> bool:
    try:
        make()
    except (OSError, NotImplementedError):
        return False
    return True


def _write(path: Path, content: bytes) -> bool:
    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return _made(write)
