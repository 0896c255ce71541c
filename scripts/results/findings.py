"""What goes wrong most often, in sentences that the figures of an evaluation make, each with its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpae.drawing.contingency import row_percent
from mpae.evaluation.result import Contingency
from results.reading import Measured, Row

POOR = 40  # foreground IoU below which an image counts as failed, in percent
FACTOR = 1.5  # the parts cover too much, or too little, if their area is so many times off the object's
LOST = 20  # percent of a keypoint's samples on the background, from which it is named
OWN = 50  # percent of a keypoint's samples in one part, from which it belongs to that part
ALIKE = 50  # percent of the samples of a left and a right keypoint that share parts, from which they are one
RARE = 2  # percent of the images that show a part, below which it is unused
IDLE = 1  # percent of all keypoints that fall into a part, below which it marks none of them


@dataclass(frozen=True)
class Group:
    """Some of the images together; figures in percent, NaN without images or keypoints."""

    images: int
    iou: float
    poor: float  # share of images with an IoU below POOR
    on_background: float  # share of the visible keypoints


def group(rows: Sequence[Row]) -> Group:
    ious = np.array([row.iou for row in rows])
    keypoints = sum(row.keypoints for row in rows)
    lost = sum(row.keypoints_on_background for row in rows)
    return Group(len(rows), _mean(ious), _mean(100.0 * (ious < POOR)), 100 * lost / keypoints if keypoints else np.nan)


def by_border(rows: Sequence[Row]) -> dict[str, Group]:
    return {"objects that touch the border": group([row for row in rows if row.touches_border]),
            "objects inside the picture": group([row for row in rows if not row.touches_border])}


def worst(rows: Sequence[Row], count: int) -> list[Row]:
    """The images with the lowest foreground IoU, the lowest first."""
    return sorted((row for row in rows if not np.isnan(row.iou)), key=lambda row: (row.iou, row.number))[:count]


def sentences(measured: Measured) -> list[str]:
    """All that is found, one sentence or two for each kind of mistake."""
    table = measured.contingency
    return [foreground(measured.rows), lost(table), merged(table), scattered(table), sides(table),
            unused(table, measured.frequency)]


def foreground(rows: Sequence[Row]) -> str:
    poor = [row for row in rows if row.iou < POOR]
    ratios = [row.foreground_share / row.object_share for row in rows if row.object_share > 0]
    ratio = f"the parts cover {np.median(ratios):.2f} times the object's area in the median image; " if ratios else ""
    found = f"Foreground: {ratio}{_of(len(poor), len(rows))} images have an IoU below {POOR}."
    if not poor:
        return found
    much = sum(row.foreground_share > FACTOR * row.object_share for row in poor)
    little = sum(FACTOR * row.foreground_share < row.object_share for row in poor)
    return (f"{found} In {_of(much, len(poor))} of these the parts cover more than {FACTOR} times the object's area, "
            f"in {_of(little, len(poor))} the object's area is more than {FACTOR} times theirs; in the others they lie "
            f"beside it.")


def lost(table: Contingency) -> str:
    share = row_percent(table.table)[:, -1]
    every = 100 * table.table[:, -1].sum() / max(1, table.table.sum())
    named = [f"{table.targets[row]} ({share[row]:.0f} %)" for row in np.argsort(-share, kind="stable")
             if share[row] >= LOST]
    return (f"Keypoints on the background: {every:.1f} % of the visible ones; "
            + (f"most of all {', '.join(named)}." if named else f"none of them in {LOST} % of its images or more."))


def owners(table: Contingency) -> dict[str, list[str]]:
    """The keypoints that belong to each part: OWN percent of their samples or more fall into it."""
    share = row_percent(table.table)[:, :-1]
    found: dict[str, list[str]] = {}
    for row, part in enumerate(share.argmax(1)):
        if share[row, part] >= OWN:
            found.setdefault(table.parts[part], []).append(table.targets[row])
    return dict(sorted(found.items()))


def merged(table: Contingency) -> str:
    together = [f"{part}: {', '.join(names)}" for part, names in owners(table).items() if len(names) > 1]
    need = len(table.targets) - (len(table.parts) - 1)
    why = f" (with K = {len(table.parts) - 1}, {need} of {len(table.targets)} must share)" if need > 0 else ""
    return f"Keypoints merged in one part{why}: " + ("; ".join(together) if together else "none") + "."


def scattered(table: Contingency) -> str:
    owned = {name for names in owners(table).values() for name in names}
    seen = [name for name, count in zip(table.targets, table.table.sum(1), strict=True) if count]
    left = [name for name in seen if name not in owned]
    return (f"Keypoints that no part has to itself, with less than {OWN} % of their samples in any: "
            + (", ".join(left) if left else "none") + ".")


def sides(table: Contingency) -> str:
    share = row_percent(table.table) / 100
    alike = []
    for row, name in enumerate(table.targets):
        other = name.replace("left ", "right ", 1)
        if other != name and other in table.targets:
            shared = 100 * np.minimum(share[row], share[table.targets.index(other)]).sum()
            verdict = "not told apart" if shared >= ALIKE else "told apart"
            alike.append(f"{name.removeprefix('left ')} {shared:.0f} % ({verdict})")
    return (f"Left and right, share of samples that fall into the same parts: {', '.join(alike)}." if alike
            else "No keypoint has a left and a right.")


def unused(table: Contingency, frequency: Sequence[float]) -> str:
    samples = 100 * table.table.sum(0) / max(1, table.table.sum())
    rare = [part for part, shown in zip(table.parts[:-1], frequency, strict=True) if shown < RARE]
    idle = [f"{part} (in {shown:.0f} % of the images)" for part, shown, hit
            in zip(table.parts[:-1], frequency, samples[:-1], strict=True) if shown >= RARE and hit < IDLE]
    return (f"Parts in less than {RARE} % of the images: {', '.join(rare) or 'none'}. Parts on less than {IDLE} % of "
            f"the keypoints, which may lie off the object: {', '.join(idle) or 'none'}.")


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} ({100 * count / max(1, total):.1f} %)"


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if len(values) else float("nan")
