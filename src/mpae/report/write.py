"""`RUN/report/`: one page and its pictures, readable with no Python and no network at hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import yaml
from PIL import Image

from mpae import __version__
from mpae.baselines import find_method
from mpae.data.source import ImageSource
from mpae.drawing.overlay import paint_parts
from mpae.drawing.palette import part_name
from mpae.errors import MPAEError
from mpae.evaluation.result import final_evaluations, title_of
from mpae.files import cannot_write, write_text
from mpae.losses.objective import TITLES as LOSS_TITLES
from mpae.metrics.registry import HEADLINE
from mpae.model.load import load_model
from mpae.prediction.part_names import PartNames
from mpae.report.charts import bar_chart, heat_map, line_chart
from mpae.report.collect import Findings, PartUse, Seen, curves, examine
from mpae.report.pictures import attention_map, part_crop, swatch
from mpae.run import Run

TITLES = LOSS_TITLES | {"foreground_share": "share of pixels in parts", "parts_used": "parts used in a batch",
                        "largest_share": "share of pixels in the largest part", "learning_rate": "learning rate",
                        "held_changed": "patches of parts that changed, images set aside",
                        "held_pixel": "L1 at hidden patches, images set aside",
                        "held_perceptual": "VGG distance at hidden patches, images set aside"}


def write_report(run: Run, source: ImageSource, *, model: Any = None, against: Run | None = None,
                 out: Path | None = None, limit: int = 200, device: torch.device | str = "cpu",
                 progress: Callable[[str, int, int], None] = lambda *_: None) -> Path:
    """Write the report beside its place, then put it there; returns the page.

    Args:
        model: the run's, if at hand; it stays on its device. A model that is loaded here goes to `device`.
        against: another run, shown beside it.
        out: the folder of the page, if not RUN/report.
        limit: how many images to look at.
    """
    folder = out or run.report.parent
    check_is_report(folder)
    mask_ratio = run.config().model.mask_ratio
    findings = examine(model or load_model(run.folder).to(device), source, limit, mask_ratio, progress)
    other = examine(load_model(against.folder).to(device), source, limit, mask_ratio, progress) if against else None
    temporary = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        content = Page(temporary, run, findings, against, other).content()
        write_text(temporary / "index.html", render(content))
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder / "index.html"


def check_is_report(folder: Path) -> None:
    """An earlier report is replaced, a folder with anything else in it is not."""
    if folder.exists() and (not folder.is_dir() or {path.name for path in folder.iterdir()} - {"index.html", "images"}):
        raise MPAEError(f"'{folder}' exists and is not a report of mpae; choose another folder.")


def render(content: dict[str, Any], template: str = "report/page.html") -> str:
    """A page in the style of the report."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(loader=PackageLoader("mpae", "."), autoescape=True, undefined=StrictUndefined)
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(content | {"style": Markup(style)})


class Page:
    """Turns findings into what the template shows, and saves the pictures on the way."""

    def __init__(self, folder: Path, run: Run, findings: Findings, against: Run | None, other: Findings | None):
        self.folder, self.run, self.findings, self.against, self.other = folder, run, findings, against, other
        self.names = PartNames.load(run.folder, findings.num_parts)
        (folder / "images").mkdir(parents=True)

    def content(self) -> dict[str, Any]:
        from markupsafe import Markup

        found = self.findings
        names = [str(part.index) for part in found.parts]
        trained = curves(list(self.run.records()))
        return {
            "title": "/".join(self.run.folder.resolve().parts[-2:]),
            "lead": f"{found.num_parts} parts, found {self.how()}, shown on {found.images} images.",
            "headline": self.headline(),
            "against": self.against.folder.resolve().name if self.against else None,
            "unused": ", ".join(self.names.name(part.index) for part in found.parts if part.unused),
            "rows": [self.row(i, seen) for i, seen in enumerate(found.rows)],
            "parts": [self.part(use) for use in found.parts],
            "presence_chart": Markup(bar_chart(found.parts_per_image, [str(n) for n in range(found.num_parts + 1)],
                                               "number of parts in an image")),
            "frequency_chart": Markup(bar_chart([100 * part.share for part in found.parts], names, "use of each part",
                                                [swatch(part.index) for part in found.parts])),
            "together_chart": Markup(heat_map(found.together, names, "parts found together")),
            "attention": [self.attention(i, seen) for i, seen in enumerate(found.attention)],
            "charts": self.agreement() + [{"name": title, "svg": Markup(line_chart(trained[name], title))}
                                          for name, title in chart_titles(trained).items() if len(trained[name]) > 1],
            "settings": yaml.safe_dump(self.run.content(), sort_keys=False),
            "version": __version__,
        }

    def how(self) -> str:
        """Which method found the parts, and what it learned from."""
        method = find_method(self.run.config().model.method)
        return "without a label" if method.name == "mpae" else f"by {method.tag}"

    def agreement(self) -> list[dict[str, Any]]:
        """How well parts were found again, for each number of them; of a run with --parts auto."""
        from markupsafe import Markup

        curve = self.run.content().get("agreement")
        if not isinstance(curve, dict):
            return []
        title = "parts found again in the other half of the images, by their number"
        return [{"name": title, "svg": Markup(bar_chart(list(curve.values()), list(map(str, curve)), title))}]

    def headline(self) -> list[dict[str, Any]]:
        ours, theirs = facts(self.run, self.findings), facts(self.against, self.other)
        return [{"name": name, "value": value, "other": theirs.get(name) if self.against else None}
                for name, value in ours.items()]

    def row(self, number: int, seen: Seen) -> dict[str, Any]:
        pictures = [self.save(seen.image, f"row-{number:02d}-image", "image"), self.overlay(number, seen, "parts")]
        if self.other:
            pictures.append(self.overlay(number, self.other.rows[number], "other"))
        if seen.restored:
            pictures.append(self.save(seen.restored, f"row-{number:02d}-restored", "restoration"))
        shown = ", ".join(str(part.index) for part in seen.present)
        return {"name": seen.name, "pictures": pictures, "caption": f"parts {shown}" if shown else "no part found"}

    def overlay(self, number: int, seen: Seen, kind: str) -> dict[str, Any]:
        return self.save(paint_parts(seen.image, seen.mask), f"row-{number:02d}-{kind}", kind)

    def part(self, use: PartUse) -> dict[str, Any]:
        text = (f"In {use.share:.0%} of the images; {use.area:.1%} of the picture on average; "
                f"mean certainty {use.confidence:.0%}.") if use.images else "In none of the images."
        name = part_name(use.index)
        pictures = [self.save(part_crop(seen, part), f"{name}-{i}", f"{seen.name}, certainty {sure:.0%}")
                    for i, (sure, seen, part) in enumerate(use.best)]
        return {"name": self.names.labels()[use.index - 1], "colour": swatch(use.index), "text": text,
                "pictures": pictures, "unused": use.unused}

    def attention(self, number: int, seen: Seen) -> dict[str, Any]:
        pictures = [self.save(seen.image, f"attention-{number}-image", "image")]
        pictures += [self.save(attention_map(seen, part.index - 1), f"attention-{number}-{part.index}",
                               self.names.name(part.index))
                     for part in seen.present]
        return {"name": seen.name, "pictures": pictures}

    def save(self, picture: Image.Image, name: str, alt: str) -> dict[str, Any]:
        file = f"images/{name}.jpg"
        picture.save(self.folder / file, quality=88)
        return {"file": file, "width": picture.width, "height": picture.height, "alt": alt}


def chart_titles(logged: Iterable[str]) -> dict[str, str]:
    """A title for everything that was logged, in the order of the page; what has none goes by its own name."""
    names = list(logged)
    return {name: TITLES[name] for name in TITLES if name in names} | {
        name: name.replace("_", " ") for name in names if name not in TITLES}


def facts(run: Run | None, findings: Findings | None) -> dict[str, str]:
    """The headline figures of a run."""
    if run is None or findings is None:
        return {}
    records = list(run.records())
    trained = [record for record in records if "total" in record]
    used = sum(not part.unused for part in findings.parts)
    found = {"parts in use": f"{used} of {findings.num_parts}", "parts per image": f"{findings.mean_parts:.1f}"}
    if trained:
        found["steps"] = f"{trained[-1]['step']}"
        found["minutes of training"] = f"{trained[-1]['minutes']:.1f}"
        found["loss at the end"] = f"{trained[-1]['total']:.2f}"
    for record in final_evaluations(records):
        size = f", {record['image_size']} px" if "image_size" in record else ""
        found |= {f"{title}, {title_of(record)}{size}": f"{record[key]:.1f}"
                  for key, title in HEADLINE.items() if record.get(key) is not None}
    return found
