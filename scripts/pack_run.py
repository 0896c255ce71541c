"""Packs a run for prediction and writes its card: one of the runs that come with mpae.

    python scripts/pack_run.py RUN NAME --about LINE --kind bird --limits TEXT [--seeds RUN2 RUN3]

It goes to src/mpae/assets/runs/NAME, or with --out to another folder; nothing else is to be changed. Name the parts of
RUN before (`mpae name`), and evaluate it: data, settings, steps and figures on the card are those that RUN has noted.
--seeds adds the mean of the same run with other random seeds, --kind a picture of parts on drawn images of a kind:
photos of benchmarks stay out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpae.assets.trained import RUNS
from mpae.config import differences, resolve
from mpae.data.catalogue import open_images
from mpae.data.sources.folder import FolderImages
from mpae.data.sources.subsets import Pictures, spread
from mpae.data.sources.synthetic import SyntheticImages, drawn_images
from mpae.errors import MPAEError
from mpae.evaluation.comparison import SHOWN, draw_side_by_side
from mpae.export.pack import Packed, pack_run
from mpae.files import write_text
from mpae.hub import card_facts, figures_table
from mpae.model.load import load_model
from mpae.prediction.part_names import PartNames
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


def card(packed: Packed, trained: Run, options: argparse.Namespace, compared: int) -> str:
    """README.md of a packed run."""
    names = PartNames.load(packed.run.folder, trained.config().model.num_parts)
    changed = [f"{key}={value}" for key, _, value in differences(resolve("laptop"), trained.config())
               if key.partition(".")[0] not in ("data", "cache")]
    facts = card_facts(trained, options.licence)
    facts |= {"trained on": options.data} if options.data else {}
    facts |= {"settings": ", ".join(["preset laptop", *changed]),
              "size": f"{packed.bytes / 1e6:.1f} MB, 8 bits a weight; the frozen backbone comes with mpae",
              "agreement with the run in float32": f"{packed.agreement:.2%} of pixels on {compared} images "
                                                   f"(lowest of one image {packed.lowest:.2%})"}
    return CARD.format(
        name=options.name, about=options.about.rstrip("."), limits=options.limits,
        picture="\n![Drawn images and their parts](parts.jpg)\n" if options.kind else "",
        facts="\n".join(f"| {key} | {value} |" for key, value in facts.items()),
        parts="\n".join(f"- {part.name}: {', '.join(map(str, part.members))}" for part in names.shown()),
        figures=figures_table(trained, [Run.open(folder) for folder in options.seeds]))


def draw(run: Run, kind: str) -> None:
    """parts.jpg: drawn images of a kind, each beside its parts."""
    model = load_model(run.folder)
    picture = draw_side_by_side(drawn_images(kind, SHOWN), {"parts": model},
                                PartNames.load(run.folder, model.num_parts))
    picture.thumbnail((900, 900))
    picture.save(run.folder / "parts.jpg", quality=85)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--about", required=True, help="one line, for `mpae runs`")
    parser.add_argument("--kind", choices=SyntheticImages.kinds, help="of drawn images that are like its own")
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], metavar="RUN",
                        help="the same run with other random seeds")
    parser.add_argument("--images", type=Path, help="on which it is compared with the run; its training images if not "
                                                    "given")
    parser.add_argument("--limit", type=int, default=200, help="so many of them, at even distances")
    parser.add_argument("--data", help="what it was trained on, and the terms of use, where the run does not know it")
    parser.add_argument("--licence", default=LICENCE)
    parser.add_argument("--out", type=Path, default=RUNS)
    options = parser.parse_args()
    try:
        trained = Run.open(options.run)
        source = FolderImages(options.images) if options.images else open_images(trained.config().data)
        compared = Pictures(source, spread(len(source), options.limit))
        packed = pack_run(trained, options.out / options.name, compared, options.about, options.kind)
        if options.kind:
            draw(packed.run, options.kind)
        write_text(packed.run.folder / "README.md", card(packed, trained, options, len(compared)))
    except MPAEError as error:
        sys.exit(f"pack_run: {error}")
    print(f"{packed.run}: {packed.bytes / 1e6:.2f} MB, {packed.agreement:.3%} of pixels as before "
          f"(lowest of one image {packed.lowest:.2%}).")


if __name__ == "__main__":
    main()
