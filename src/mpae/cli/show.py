"""`mpae show`: a quick look at the parts of one image, in the terminal and as one PNG."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from mpae.cli.console import messages, results
from mpae.cli.flags import Device, Quiet, RunFolder
from mpae.cli.progress import busy
from mpae.errors import MPAEError

if TYPE_CHECKING:
    from PIL import Image

    from mpae.prediction.parts import Parts

UPPER_HALF = "▀"  # one character is two pixels: the colour of the letter above, of the paper below
SIGNATURE = "mpae show"  # in a PNG that may be replaced by the next one


def show(
    run: RunFolder,
    image: Annotated[Path | None, typer.Argument(metavar="[IMAGE]", help="one image file; one that mpae draws if not "
                                                 "given")] = None,
    out_file: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.png",
                                                  help="the picture to write; if not given, IMAGE-parts.png "
                                                       "beside the image, or RUN-parts.png here")] = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """A quick look at the parts of one image: here in the terminal, and as a PNG."""
    from PIL import Image

    from mpae.data.sources.in_memory import iterate_pictures
    from mpae.data.sources.synthetic import drawn_images
    from mpae.devices import choose_device
    from mpae.drawing.overlay import overlay, viewing_size
    from mpae.hub import run_folder
    from mpae.model.load import load_model
    from mpae.prediction.part_names import PartNames
    from mpae.prediction.predictor import PartPredictor
    from mpae.run import Run

    console = messages(quiet)
    if image is None:
        folder = run_folder(run)
        picture = drawn_images(Run.open(folder).content().get("kind"), 1)[0]
        file = out_file or Path(f"{folder.name}-parts.png")
    else:
        if image.is_dir():
            raise MPAEError(f"'{image}' is a folder; `mpae show` takes one image, `mpae predict` takes folders.")
        picture = next(iterate_pictures(image))  # a mistake in the image is told before a run is fetched
        folder, file = run_folder(run), out_file or png_file(image)
    check_replaceable(file)
    with busy(console, "find the parts"):
        model = load_model(folder)
        names = PartNames.load(folder, model.num_parts)
        parts = next(PartPredictor(model, device=choose_device(device), names=names).predict([picture]))
    view = picture.image.resize(viewing_size(picture.image.size), Image.Resampling.BICUBIC)
    write_png(file, overlay(view, names.seen(parts.mask), names.all_names(), names.colours()))
    print_parts(results(quiet), picture.image, parts)
    results(quiet).print(f"{file}", highlight=False, soft_wrap=True)


def print_parts(console: Console, image: Image.Image, parts: Parts) -> None:
    """The picture, where a terminal shows colours, and a table of its parts."""
    from mpae.drawing.overlay import paint_parts

    if console.is_terminal and console.color_system is not None and not console.no_color:
        # Under the picture go the table, its frame, the file's name and the prompt.
        rows = max(10, console.height - len(parts.present) - 7)
        console.print(half_blocks(paint_parts(image, parts.mask), console.width, rows))
    console.print(parts_table(parts))


def half_blocks(image: Image.Image, columns: int, rows: int) -> Text:
    """A picture in coloured characters, as large as fits."""
    import numpy as np
    from PIL import Image

    factor = min(columns / image.width, 2 * rows / image.height)
    width, height = max(1, int(image.width * factor)), max(2, int(image.height * factor) // 2 * 2)
    pixels = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)).tolist()
    lines = []
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
        pairs = zip(upper, lower, strict=True)
        lines.append(Text.assemble(*((UPPER_HALF, Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
                                     for above, below in pairs)))
    return Text("\n").join(lines)


def parts_table(parts: Parts) -> Table | str:
    """Colour, name, area and confidence of each part that the image shows."""
    from mpae.drawing.palette import part_colours

    if not parts.present:
        return "This image shows no parts."
    colours = part_colours(parts.num_parts).tolist()
    table = Table(header_style="bold")
    table.add_column("part")
    table.add_column("area", justify="right")
    table.add_column("confidence", justify="right")
    for part in parts.present:
        swatch = Text("██ ", Style(color=Color.from_rgb(*colours[part.index - 1])))
        table.add_row(swatch + Text(part.name, "default"), f"{part.share:.1%}", f"{part.confidence:.0%}")
    return table


def png_file(image: Path) -> Path:
    """Beside the image; in the current folder where nothing can be written there."""
    name = f"{image.stem}-parts.png"
    return image.with_name(name) if os.access(image.parent, os.W_OK) else Path(name)


def check_replaceable(file: Path) -> None:
    """What an earlier `mpae show` wrote is replaced, a file of the user's own is not."""
    from PIL import Image

    if not os.path.lexists(file):
        return
    try:
        with Image.open(file, formats=["PNG"]) as found:
            if found.info.get("Software") == SIGNATURE:
                return
    except Exception:  # whatever it is, it is not ours
        pass
    raise MPAEError(f"'{file}' exists and was not made by `mpae show`; choose another file with --out FILE.")


def write_png(file: Path, picture: Image.Image) -> None:
    from PIL import PngImagePlugin

    from mpae.files import write_atomically

    info = PngImagePlugin.PngInfo()
    info.add_text("Software", SIGNATURE)
    write_atomically(file, lambda temporary: picture.save(temporary, format="PNG", pnginfo=info))
