"""Packs a run for prediction and writes its card: one of the runs that come with mpae.

    python scripts/pack_run.py RUN NAME --images FOLDER --about LINE --data TEXT [--draw KIND]

It goes to src/mpae/assets/runs/NAME, or with --out to another folder. Figures are those of the run's evaluations;
--draw adds a picture of parts on drawn images of a kind (bird, fish, quadruped, vehicle): photos of benchmarks stay
out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from PIL import Image

from mpae.assets.trained import RUNS
from mpae.config import differences, resolve
from mpae.data.sources.folder import FolderImages
from mpae.data.sources.subsets import Pictures, spread
from mpae.data.sources.synthetic import SyntheticImages
from mpae.drawing.overlay import paint_parts, preview_grid
from mpae.errors import MPAEError
from mpae.export.pack import Packed, pack_run
from mpae.files import write_text
from mpae.hub import card_facts, figures_table
from mpae.model.load import load_model
from mpae.prediction.part_names import PartNames
from mpae.prediction.predictor import PartPredictor
from mpae.run import Run

LICENCE = "Apache-2.0, as mpae; the images are under the terms of their owners and not part of it"
LIMITS = "Trained on the images above alone: on other things its parts mean little."
CARD = """# {name}

{about}. Comes with mpae:

```bash
mpae show {name} photo.jpg
mpae predict {name} PHOTOS --out parts
```

or `PartDiscovery.load("{name}")` in Python.
{picture}
## What it is

| | |
|---|---|
{facts}

## Parts

{parts}
{figures}
## Limits

{limits}
"""


def card(packed: Packed, trained: Run, name: str, options: argparse.Namespace, picture: bool) -> str:
    """README.md of a packed run."""
    run = packed.run
    facts = {"trained on": options.data} | card_facts(trained, options.licence)
    changed = [f"{key}={value}" for key, _, value in differences(resolve("laptop"), run.config())
               if key.partition(".")[0] not in ("data", "cache")]
    facts |= {"settings": f"preset laptop{', '.join(['', *changed])}",
              "size": f"{packed.bytes / 1e6:.1f} MB, 8 bits a weight; the frozen backbone comes with mpae",
              "agreement with the run in float32": f"{packed.agreement:.2%} of pixels on {len(options.source)} images "
                                                   f"(lowest of one image {packed.lowest:.2%})"}
    names = PartNames.load(run.folder, run.config().model.num_parts)
    return CARD.format(
        name=name, about=options.about.rstrip("."), limits=options.limits,
        picture="\n![Drawn images and their parts](parts.jpg)\n" if picture else "",
        facts="\n".join(f"| {key} | {value} |" for key, value in facts.items()),
        parts="\n".join(f"- {part.name}: {', '.join(map(str, part.members))}" for part in names.shown()),
        figures=figures_table(trained))


def draw(run: Run, kind: str, count: int = 8) -> Image.Image:
    """Drawn images of a kind, each beside its parts; two a row."""
    source = SyntheticImages(20 * count, split="test")
    chosen = [index for index, drawn in enumerate(source.names) if drawn.endswith(kind)]
    pictures = [source[index] for index in chosen[:count]]
    if len(pictures) < count:
        raise MPAEError(f"No images of '{kind}' are drawn; choose one of: {', '.join(source.kinds)}.")
    model = load_model(run.folder)
    names = PartNames.load(run.folder, model.num_parts)
    found = PartPredictor(model, names=names).predict(pictures)
    pairs = [[picture.image, paint_parts(picture.image, names.seen(parts.mask), names.colours())]
             for picture, parts in zip(pictures, found, strict=True)]
    return preview_grid([left + right for left, right in zip(pairs[::2], pairs[1::2], strict=True)],
                        titles=("image", "parts") * 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--images", type=Path, required=True, help="on which it is compared with the run")
    parser.add_argument("--limit", type=int, default=200, help="so many of them, spread over the folder")
    parser.add_argument("--about", required=True, help="one line, for `mpae runs`")
    parser.add_argument("--data", required=True, help="what it was trained on, and the terms of use")
    parser.add_argument("--licence", default=LICENCE)
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("--draw", help="a kind of drawn images for the picture")
    parser.add_argument("--out", type=Path, default=RUNS)
    options = parser.parse_args()
    try:
        source = FolderImages(options.images)
        options.source = Pictures(source, spread(len(source), options.limit))
        trained = Run.open(options.run)
        packed = pack_run(trained, options.out / options.name, options.source, options.about)
        if options.draw:
            picture = draw(packed.run, options.draw)
            picture.thumbnail((900, 900))
            picture.save(packed.run.folder / "parts.jpg", quality=85)
        write_text(packed.run.folder / "README.md", card(packed, trained, options.name, options, bool(options.draw)))
    except MPAEError as error:
        sys.exit(f"pack_run: {error}")
    print(f"{packed.run}: {packed.bytes / 1e6:.2f} MB, {packed.agreement:.3%} of pixels as before "
          f"(lowest of one image {packed.lowest:.2%}).")


if __name__ == "__main__":
    main()
