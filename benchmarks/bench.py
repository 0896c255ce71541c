"""Every figure of `mpae bench`: measured, as a ratio to the plain reading, beside what is to be reached."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from rich.table import Table

from benchmarks import cases
from benchmarks.cases import FULL, QUICK, Sizes
from benchmarks.growth import VERBS, growth
from benchmarks.measure import Work, alternate, operations, peak_memory, ratio, share_of_peak
from mpae.errors import MPAEError

Row = dict[str, Any]
Build = Callable[[str], Work]  # variant -> work


def run(quick: bool, only: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """The rows of all measurements with `only` in their name. `tell` is called with what is measured next."""
    sizes = QUICK if quick else FULL
    measurements: dict[str, Callable[[Sizes], list[Row]]] = {
        "training": training_rows, "laptop preset": laptop_rows,
        f"prediction at {sizes.image_size} px": prediction_rows,
        f"prediction at {2 * sizes.image_size} px": fine_prediction_rows,
        f"prediction at {sizes.large_mask} px": large_prediction_rows,
        "NMI and ARI": clustering_rows, "twice the images": growth_rows}
    chosen = [name for name in measurements if only in name]
    if not chosen:
        raise MPAEError(f"No measurement has '{only}' in its name; there are: {', '.join(measurements)}.")
    rows: list[Row] = []
    for name in chosen:
        tell(name)
        rows += measurements[name](sizes)
    return {"quick": quick, "machine": machine(), "rows": rows}


def training_rows(sizes: Sizes) -> list[Row]:
    at = (f"ViT-B/14, {sizes.image_size} px, K = {sizes.many_parts}, batch {sizes.batch}, "
          f"{sizes.image_size // 14 * 8} px restoration, warm cache")
    build = partial(cases.training, preset="paper", architecture=sizes.base, num_parts=sizes.many_parts,
                    batch=sizes.batch, sizes=sizes)
    return [speed_row("training, images/s", at, 2.0, build, sizes),
            memory_row("training, peak memory", at, 0.5, build, sizes)]


def laptop_rows(sizes: Sizes) -> list[Row]:
    """The step of the preset against the plain step at the paper's settings, an image."""
    small = partial(cases.training, architecture=sizes.small, num_parts=sizes.few_parts, sizes=sizes)
    batches = {"ours": sizes.config("laptop", sizes.few_parts).training.batch_size, "plain": sizes.batch}

    def build(variant: str) -> Work:
        preset = "laptop" if variant == "ours" else "paper"
        return small(variant, preset=preset, batch=batches[variant])

    at = f"ViT-S/14, {sizes.image_size} px, K = {sizes.few_parts}"
    works = {variant: small(variant, preset="laptop", batch=None) for variant in ("ours", "uncut")}
    seconds = alternate(works, sizes.rounds)
    rate = batches["ours"] / statistics.median(seconds["ours"])
    return [speed_row("training, laptop preset", f"{at}; plain: the paper's settings", 3.5, build, sizes, batches),
            row("training, laptop preset, to its uncut step", f"{at}; {rate:.1f} images/s", ratio(
                seconds["uncut"], seconds["ours"]), 3.0, seconds)]


def prediction_rows(sizes: Sizes) -> list[Row]:
    build = partial(cases.prediction, architecture=sizes.base, batch=sizes.batch, mask_size=sizes.image_size,
                    sizes=sizes)
    at = f"ViT-B/14, K = {sizes.many_parts}, batch {sizes.batch}"
    works = {variant: build(variant) for variant in ("ours", "int8", "plain")}
    seconds = alternate(works, sizes.rounds)
    count = operations(works["ours"])
    what = f"prediction to masks of {sizes.image_size} px"
    return [row(f"{what}, fp32", at, ratio(seconds["plain"], seconds["ours"]), 1.2, seconds,
                share=share_of_peak(count, seconds["ours"], seconds["matmul"])),
            row(f"{what}, int8", at, ratio(seconds["plain"], seconds["int8"]), 2.0, seconds),
            memory_row(f"{what}, peak memory", at, None, build, sizes)]


def fine_prediction_rows(sizes: Sizes) -> list[Row]:
    """Masks of images of twice the size, against four images at once on all cores in float32, as in version 0.2."""
    fine = replace(sizes, image_size=2 * sizes.image_size)
    works = {variant: cases.fine_prediction(variant, fine) for variant in (
        "four at once", "ours", "exact", "bfloat16, ours", "bfloat16, exact", "int8, ours", "int8, exact",
        "int8, four at once")}
    exact = works["exact"]()
    seconds, rows = alternate(works, sizes.rounds), []
    for variant, target in {"ours": 1.6, "exact": None, "bfloat16, ours": None, "bfloat16, exact": None,
                            "int8, ours": 2.5, "int8, exact": None, "int8, four at once": None}.items():
        same = 100 * cases.agreement(works[variant](), exact)
        rows.append(row(f"prediction at {fine.image_size} px to four at once in fp32: {variant}",
                        f"run birds, {cases.FINE_IMAGES} drawn images; {same:.2f} % of pixels as exact",
                        ratio(seconds["four at once"], seconds[variant]), target, seconds))
    return rows


def large_prediction_rows(sizes: Sizes) -> list[Row]:
    build = partial(cases.prediction, architecture=sizes.small, batch=1, mask_size=sizes.large_mask, sizes=sizes)
    what, at = f"prediction to a mask of {sizes.large_mask} px", f"ViT-S/14, K = {sizes.many_parts}"
    return [speed_row(what, at, 4.0, build, sizes), memory_row(f"{what}, peak memory", at, 0.1, build, sizes)]


def clustering_rows(sizes: Sizes) -> list[Row]:
    build = partial(cases.clustering, sizes=sizes)
    what, at = f"NMI and ARI of {sizes.labels / 1e6:g} million pixels", "to scikit-learn on concatenated labels"
    seconds = alternate({variant: build(variant) for variant in ("ours", "plain")}, rounds=1)
    return [row(what, at, ratio(seconds["plain"], seconds["ours"]), 10.0, seconds),
            memory_row(f"{what}, peak memory", at, None, build, sizes)]


def growth_rows(sizes: Sizes) -> list[Row]:
    rows = []
    settings = {"data.image_size": sizes.image_size, **sizes.grown}
    for verb in VERBS:
        once, twice = growth(verb, sizes.grown_images, settings, sizes.fresh)
        at = f"{sizes.grown_images} and {2 * sizes.grown_images} images, laptop preset"
        rows += [row(f"{verb}, time for twice the images", at, twice.seconds / once.seconds, 2.2,
                     {"once": [once.seconds], "twice": [twice.seconds]}, at_most=True),
                 row(f"{verb}, memory for twice the images", at, twice.bytes / once.bytes, 1.05,
                     {"once": once.bytes, "twice": twice.bytes}, at_most=True)]
    return rows


def speed_row(what: str, at: str, target: float, build: Build, sizes: Sizes,
              batches: dict[str, int] | None = None) -> Row:
    """How many times as fast as plain; for different batches, an image."""
    works = {variant: build(variant) for variant in ("ours", "plain")}
    seconds = alternate(works, sizes.rounds)
    share = share_of_peak(operations(works["ours"]), seconds["ours"], seconds["matmul"])
    per_image = batches["ours"] / batches["plain"] if batches else 1.0
    return row(what, at, per_image * ratio(seconds["plain"], seconds["ours"]), target, seconds, share=share)


def memory_row(what: str, at: str, target: float | None, build: Build, sizes: Sizes) -> Row:
    held = {variant: peak_memory(build, variant, fresh=sizes.fresh) for variant in ("ours", "plain")}
    return row(what, at, held["ours"] / held["plain"], target, held, at_most=True)


def row(what: str, at: str, value: float, target: float | None, raw: dict[str, Any], *, at_most: bool = False,
        share: float | None = None) -> Row:
    reached = None if target is None else (value <= target if at_most else value >= target)
    return {"what": what, "at": at, "ours_to_plain": value, "target": target, "at_most": at_most,
            "reached": reached, "share_of_matmul_peak": share, "raw": raw}


def machine() -> dict[str, Any]:
    matrix = torch.randn(2048, 2048)
    seconds = alternate({"product": lambda: matrix @ matrix}, rounds=5)["product"]
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "instructions": torch.backends.cpu.get_cpu_capability(),
            "torch": torch.__version__, "matmul_gflops": 2 * 2048**3 / statistics.median(seconds) / 1e9}


def table(result: dict[str, Any]) -> Table:
    on = result["machine"]
    title = (f"ours to plain; {on['threads']} threads, {on['instructions']}, torch {on['torch']}, "
             f"matmul {on['matmul_gflops']:.0f} GFLOP/s")
    shown = Table(title=title + ("; QUICK: tiny models, the figures mean nothing" if result["quick"] else ""),
                  title_justify="left")
    for name in ("what", "at", "ours to plain", "to reach", "share of matmul peak"):
        shown.add_column(name, justify="left" if name in ("what", "at") else "right")
    for each in result["rows"]:
        colour = {True: "green", False: "red", None: "default"}[each["reached"]]
        bound = "at most" if each["at_most"] else "at least"
        share = each["share_of_matmul_peak"]
        shown.add_row(each["what"], each["at"], f"[{colour}]{each['ours_to_plain']:.3g}[/]",
                      "" if each["target"] is None else f"{bound} {each['target']:g}",
                      "" if share is None else f"{share:.0%}")
    return shown
