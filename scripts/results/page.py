"""docs/studies/results.md, in Markdown: a table for each K, then a section for each run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from mpae.baselines import BASELINES
from mpae.config import Config
from mpae.drawing.contingency import row_percent
from mpae.evaluation.paper import Row as PaperRow
from mpae.evaluation.paper import paper_row
from mpae.metrics.registry import FIGURES, HEADLINE
from results import commands, findings
from results.reading import DATASET, SPLIT, Measured, Study

PAPER_SYSTEMS = {"MPAE": "the paper: MPAE, ViT-B/14 at 448 px, 100 epochs on GPUs",
                 "DINO": "the paper: clustering of DINO features"}
SYSTEMS = PAPER_SYSTEMS | {name: f"baseline: {baseline.title}" for name, baseline in BASELINES.items()}
SMALLER_IS_BETTER = {figure.name for figure in FIGURES if figure.higher_is_better is False}
WORST = 12  # images that are named
HEAD = """# Results on CUB-200-2011

Made by `make results` (experiments/README.md) from the files of the run folders; nothing in it is typed by hand but
the remarks, which stand in `experiments/remarks.md`. Figures are in percent, on the {split} split, by the protocol of
`mpae evaluate`; in brackets the difference to the paper's MPAE with the same K. NME: less is better. Keypoint figures
are blind to what happens off the bird, so the foreground IoU, the mean over images against the annotated masks, stands
beside each. Input is the side at which the frozen backbone sees an image at test time, whatever it was in training.
Runs that differ in their seed alone have a row with the mean and the deviation (n - 1) of their figures. Minutes are
those that the run logged; features that its cache held from an earlier run cost none.

In the pictures each colour is a part, the white line is the outline that people drew, dots are the keypoints that they
marked; the photos may not be passed on and are not shown (`strip.jpg` in the run folder has them).
"""


def render(studies: Sequence[Study], baselines: Sequence[Measured], pictures: str, remarks: str = "") -> str:
    """The whole page; `pictures` is the folder of the strips, relative to the page."""
    blocks = [HEAD.format(split=SPLIT)]
    for num_parts in sorted({study.measured.num_parts for study in studies}):
        some = [study for study in studies if study.measured.num_parts == num_parts]
        same = [baseline for baseline in baselines if baseline.num_parts == num_parts]
        blocks += [f"## K = {num_parts}\n", overview(some, same), *samples(some, same)]
    if remarks:
        blocks += ["## Remarks\n", remarks.strip() + "\n"]
    for study in studies:
        same = [baseline for baseline in baselines if baseline.num_parts == study.measured.num_parts]
        blocks.append(section(study, same, pictures))
    return "\n".join(blocks)


# -- the tables


def overview(studies: Sequence[Study], baselines: Sequence[Measured]) -> str:
    """Our runs, the baselines, the paper's rows."""
    num_parts = studies[0].measured.num_parts
    paper = paper_row(DATASET, num_parts) or {}
    head = ["system", *HEADLINE.values(), "parts per image", "images", "input", "minutes", "steps", "seed", "backbone"]
    rows = []
    for study in studies:
        training, backbone = study.config.training, commands.backbone_name(study.config.backbone.name)
        rows += [[f"[{study.name}](#{study.name})", *figure_cells(measured, paper.get("MPAE")),
                  f"{study.minutes:.1f}", f"{study.steps:,}", str(training.seed), backbone]
                 for measured in study.evaluations]
    rows += [row for group in by_all_but_the_seed(studies) for row in mean_rows(group, paper.get("MPAE"))]
    for baseline in baselines:
        rows.append([SYSTEMS.get(baseline.system, baseline.system), *figure_cells(baseline, paper.get("MPAE"))])
    for system, row in paper.items():
        rows.append([SYSTEMS[system], *(_number(row.get(name)) for name in HEADLINE)])
    return table(head, rows)


def figure_cells(measured: Measured, paper: PaperRow | None) -> list[str]:
    cells = [_number(measured.figures[name]) + _difference(name, measured.figures[name], paper) for name in HEADLINE]
    return [*cells, _number(measured.figures["parts_per_image"]), f"{measured.figures['images']:,}",
            f"{measured.image_size} px"]


def by_all_but_the_seed(studies: Sequence[Study]) -> list[list[Study]]:
    """Runs that differ in their seed alone, two at least."""
    groups: dict[str, list[Study]] = {}
    for study in studies:
        groups.setdefault(but_for_the_seed(study.config), []).append(study)
    return [group for group in groups.values() if len(group) > 1]


def but_for_the_seed(config: Config) -> str:
    """The same text for two runs exactly if nothing but seed and machine tells them apart."""
    return repr([(name, value) for name, _, value in commands.changes(Config(), config) if name != "training.seed"])


def mean_rows(studies: Sequence[Study], paper: PaperRow | None) -> list[list[str]]:
    """Mean and deviation over seeds, a row for each size of the images at which all of them were evaluated."""
    rows = []
    for size in [each.image_size for each in studies[0].evaluations]:
        measured = [each for study in studies for each in study.evaluations if each.image_size == size]
        if len(measured) == len(studies):
            cells = [mean_cell([each.figures[name] for each in measured], name, paper) for name in HEADLINE]
            parts = mean_cell([each.figures["parts_per_image"] for each in measured], "parts_per_image", None)
            images = {each.figures["images"] for each in measured}
            minutes, seeds = [study.minutes for study in studies], [study.config.training.seed for study in studies]
            rows.append([f"**mean ± deviation over {len(studies)} seeds**", *cells, parts,
                         f"{images.pop():,}" if len(images) == 1 else "", f"{size} px",
                         f"{statistics.fmean(minutes):.1f}", "", ", ".join(map(str, sorted(seeds))),
                         commands.backbone_name(studies[0].config.backbone.name)])
    return rows


def mean_cell(values: Sequence[float | None], name: str, paper: PaperRow | None) -> str:
    """'61.20 ± 0.45 (−7.04)': the deviation is that of a sample (n - 1); empty where a run has no figure."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return ""
    mean = statistics.fmean(known)
    return f"{_number(mean)} ± {statistics.stdev(known):.2f}{_difference(name, mean, paper)}"


def samples(studies: Sequence[Study], baselines: Sequence[Measured]) -> list[str]:
    """A warning where figures are not those of the whole split, a note where NME was fitted on some of the other."""
    measured = [(f"{study.name} at {each.image_size} px", each) for study in studies for each in study.evaluations]
    measured += [(f"{each.system} at {each.image_size} px", each) for each in baselines]
    warnings = [f"**{name} was evaluated on a sample of {each.figures['images']:,} images, not on the whole split.**\n"
                for name, each in measured if each.limit is not None]
    notes = [f"The NME of {name} comes from a regression on {each.nme_images:,} images, spread over the training "
             "split.\n" for name, each in measured if each.nme_images is not None]
    return warnings + notes


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; short rows are filled up. All columns but the first are numbers."""
    full = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *full]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# -- a run


def section(study: Study, baselines: Sequence[Measured], pictures: str) -> str:
    measured = study.measured
    bad = findings.worst(measured.rows, WORST)
    names = "\n".join(f"- `{row.name}`: IoU {row.iou:.1f}, {row.keypoints_on_background} of {row.keypoints} visible "
                      f"keypoints on the background{', touches the border' if row.touches_border else ''}"
                      for row in bad)
    blocks = [
        f"## {study.name}\n",
        summary(study),
        fenced([commands.fit_command(study), *commands.evaluate_commands(study),
                *map(commands.baseline_command, baselines)]),
        settings(study.config),
        f"![Parts in images at even distances over the split]({pictures}/{study.name}.png)\n",
        *comparisons(measured, baselines),
        "Objects that touch the border of the picture, apart from the others:\n",
        border_table(study.name, measured, baselines),
        "What goes wrong most often:\n",
        "\n".join(f"- {sentence}" for sentence in findings.sentences(measured)) + "\n",
        keypoint_table(measured),
        f"The {len(bad)} images with the lowest foreground IoU:\n",
        f"![Parts in these images]({pictures}/{study.name}-worst.png)\n",
        names + "\n",
    ]
    return "\n".join(blocks)


def summary(study: Study) -> str:
    content, config = study.run.content(), study.config
    images = f"{content['images']:,} images, " if "images" in content else ""
    return (f"K = {config.model.num_parts}, {images}{study.steps:,} steps of {config.training.batch_size} images in "
            f"{study.minutes:.1f} minutes, seed {config.training.seed}, backbone "
            f"`{commands.backbone_name(config.backbone.name)}` at {config.data.image_size} px, "
            f"mpae {content.get('version')}.\n")


def fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```bash", *lines, "```\n"])


def settings(config: Config) -> str:
    preset, changed = commands.nearest_preset(config)
    if not changed:
        return f"All settings are those of the preset `{preset}`.\n"
    rows = [[f"`{name}`", commands.shown(name, old), commands.shown(name, new)] for name, old, new in changed]
    return f"Settings that differ from the preset `{preset}`:\n\n" + table(["setting", "preset", "here"], rows)


def comparisons(measured: Measured, baselines: Sequence[Measured]) -> list[str]:
    """'Against the paper: NMI 8.18 behind, ...', a sentence for each system that we stand beside."""
    paper = (paper_row(DATASET, measured.num_parts) or {}).get("MPAE")
    others: list[tuple[str, Mapping[str, float | None]]] = [("MPAE", dict(paper))] if paper else []
    others += [(baseline.system, baseline.figures) for baseline in baselines]
    return [f"Against {SYSTEMS.get(name, name)}: {against(measured.figures, figures)}.\n" for name, figures in others]


def against(ours: Mapping[str, float | None], theirs: Mapping[str, float | None]) -> str:
    words = []
    for name, title in HEADLINE.items():
        here, there = ours.get(name), theirs.get(name)
        if here is not None and there is not None:
            ahead = there - here if name in SMALLER_IS_BETTER else here - there
            words.append(f"{title} {abs(ahead):.2f} {'ahead' if ahead > 0 else 'behind' if ahead < 0 else 'apart'}")
    return ", ".join(words)


def border_table(name: str, measured: Measured, baselines: Sequence[Measured]) -> str:
    head = ["", "images", "foreground IoU", f"images with IoU below {findings.POOR}", "visible keypoints on background"]
    rows = [[f"{system}: {kind}", f"{group.images:,}", _number(group.iou), _number(group.poor),
             _number(group.on_background)]
            for system, each in [(name, measured), *((baseline.system, baseline) for baseline in baselines)]
            for kind, group in findings.by_border(each.rows).items()]
    return table(head, rows)


def keypoint_table(measured: Measured) -> str:
    """Where each annotated keypoint falls: its two most frequent parts, and the background."""
    found = measured.contingency
    share = row_percent(found.table)
    rows = []
    for row, target in enumerate(found.targets):
        order = (-share[row, :-1]).argsort(kind="stable")[:2]
        parts = [f"{found.parts[part]} {share[row, part]:.0f}" if share[row, part] else "" for part in order]
        rows.append([target, f"{found.table[row].sum():,}", *parts, *[""] * (2 - len(parts)), f"{share[row, -1]:.0f}"])
    return table(["keypoint", "visible in", "part, percent", "next", "background"], rows)


def _number(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.2f}".replace("-", "−")


def _difference(name: str, value: float | None, paper: PaperRow | None) -> str:
    if value is None or paper is None or name not in paper:
        return ""
    return f" ({value - paper[name]:+.2f})".replace("-", "−")
