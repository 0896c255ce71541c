"""`mpae study`: a table or figure of the paper, or one's own, by one command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from mpae.cli.console import messages, results
from mpae.cli.flags import Assignments, Outline, Preset, Quiet
from mpae.cli.settings import new_table
from mpae.errors import MPAEError

if TYPE_CHECKING:
    from mpae.studies.expand import PlannedRun, Request
    from mpae.studies.folder import StudyFolder
    from mpae.studies.study import Study


def study(
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE.yaml]", help="a study; without one, all are "
                                               "listed")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="the study's folder; studies/NAME if not "
                                                    "given")] = None,
    dataset: Annotated[str | None, typer.Option(help="which dataset, if not the study's; `mpae datasets` lists "
                                                "them")] = None,
    roots: Annotated[list[str] | None, typer.Option("--root", metavar="DIR", help="folder of the dataset; NAME=DIR "
                                                    "for each, where a study has several")] = None,
    preset: Preset = None,
    parts: Annotated[str | None, typer.Option(help="K, or several as 4,8,16, if not the study's")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="runs of each row, with seeds 0, 1, ...")] = 1,
    max_minutes: Annotated[float | None, typer.Option(min=0.01, help="of training, for each run")] = None,
    split: Annotated[str, typer.Option(help="on which runs are evaluated; a study that is to choose a setting does not "
                                       "look at test")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="evaluate on so many images, spread over the split")] = None,
    nme_images: Annotated[int | None, typer.Option("--nme-images", min=1, help="fit the regression of the NME on so "
                          "many training images, spread over the split; as many as --limit, if not given")] = None,
    image_size: Annotated[int | None, typer.Option(min=14, max=4096, help="side of the images of the evaluation, if "
                                                   "not that of training")] = None,
    outline: Outline = "patch",
    assignments: Assignments = None,
    runs_folder: Annotated[Path | None, typer.Option("--runs", help="where run folders are, if not in --out; studies "
                                                     "that share them train no run twice")] = None,
    array: Annotated[str | None, typer.Option(metavar="I/N", help="only every Nth run, beginning with the Ith: for "
                                              "the jobs of an array")] = None,
    only_page: Annotated[bool, typer.Option("--only-page", help="make the page of --out anew, and nothing "
                                            "else")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list every run with its settings and hours, and write "
                                          "nothing")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a table or figure of the paper, or a study of your own; stop it and run it again, and it goes on."""
    from mpae.prediction.outline import checked_outline
    from mpae.studies.conduct import Conductor, share
    from mpae.studies.expand import distinct, expand
    from mpae.studies.folder import StudyFolder
    from mpae.studies.page import write_page
    from mpae.studies.study import find_study

    console = messages(quiet)
    if only_page:
        out = out_folder or Path("studies") / Path(name or "").stem
        folder, _, chosen, request = StudyFolder.open(out)
        tell_page(write_page(folder, chosen, request))
        return
    if name is None:
        list_studies()
        return
    called, chosen = find_study(name)
    request = make_request(chosen, dataset, roots or [], preset, parts, assignments or [], seeds=seeds,
                           max_minutes=max_minutes, split=split, limit=limit, nme_images=nme_images,
                           image_size=image_size, outline=checked_outline(outline))
    folder = StudyFolder(out_folder or Path("studies") / called, runs_folder)
    folder.check(called)
    runs = share(distinct(expand(chosen, request)), array)
    images = check_data(runs, split)
    if dry_run:
        print_plan(folder, chosen, request, runs, images)
        return
    folder.begin(called, chosen, request)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    try:
        with watching(console) as show:
            conductor = Conductor(folder, chosen, request, say, lambda: write_page(folder, chosen, request), show)
            conductor.run(runs)
    except KeyboardInterrupt:
        say("Stopped; the same command goes on.")
        raise
    finally:
        page = write_page(folder, chosen, request)
    if conductor.elsewhere:
        say(f"{conductor.elsewhere} runs are with other processes, which write the page when they end.")
    tell_page(page)
    if conductor.failed:
        say(f"{len(conductor.failed)} of {len(runs)} runs failed; the same command tries them again.")
        sys.exit(1)


@contextmanager
def watching(console: Console) -> Iterator[Callable[[str], None]]:
    """Shows what a run says last, on a terminal."""
    if not console.is_terminal or console.quiet:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))


def tell_page(page: Path) -> None:
    results().print(f"The page is at {page}", highlight=False, soft_wrap=True)


def make_request(chosen: Study, dataset: str | None, roots: list[str], preset: str | None, parts: str | None,
                 assignments: list[str], **others: Any) -> Request:
    """The flags as a request; what is wrong with them is told here."""
    from mpae.config import PRESETS, default_preset, parse_assignment
    from mpae.data.catalogue import DATASETS, find_dataset
    from mpae.studies.expand import Request

    if preset is not None and preset not in PRESETS:
        raise MPAEError(f"Unknown preset '{preset}'; choose one of: {', '.join(PRESETS)}.")
    if dataset is not None:
        find_dataset(dataset)
    datasets = [dataset] if dataset else list(chosen.datasets)
    folders: dict[str, str] = {}
    for root in roots:
        named, _, place = root.partition("=")
        if place and named in DATASETS:
            folders[named] = place
        elif len(datasets) == 1:
            folders[datasets[0]] = root
        else:
            raise MPAEError(f"--root {root}: this study is on {', '.join(datasets) or 'no dataset of its own'}; choose "
                            "one with --dataset, or write --root NAME=DIR for each.")
    return Request(dataset=dataset, roots=folders, preset=preset or default_preset(), parts=number_list(parts),
                   settings=dict(parse_assignment(text) for text in assignments), **others)


def number_list(parts: str | None) -> tuple[int, ...]:
    """'4,8' -> (4, 8)."""
    words = [word.strip() for word in parts.split(",")] if parts else []
    if not all(word.isdecimal() and 1 <= int(word) <= 1000 for word in words):
        raise MPAEError(f"--parts is '{parts}', expected a number from 1 to 1000, or several as 4,8,16.")
    return tuple(int(word) for word in words)


def check_data(runs: list[PlannedRun], split: str) -> dict[str, tuple[int, int]]:
    """Open every dataset before any time is spent; how many images to train on and to evaluate each has."""
    from mpae.data.catalogue import find_dataset, open_annotated, open_images

    images: dict[str, tuple[int, int]] = {}
    for run in runs:
        data = run.config.data
        if data.dataset not in images:
            training = len(open_images(data, "train"))
            annotated = find_dataset(data.dataset).open is not None
            images[data.dataset] = training, len(open_annotated(data, split)) if annotated else training
    return images


def list_studies() -> None:
    """Every study of the package: what it varies and on which data."""
    from mpae.studies.study import find_study, study_names

    table = new_table("study", "what varies", "rows", "data and K of the paper")
    for name in study_names():
        _, each = find_study(name)
        data = "; ".join(f"{dataset} {', '.join(map(str, parts))}" for dataset, parts in each.datasets.items())
        table.add_row(name, each.title, str(len(each.rows)), data)
    results().print(table)
    results().print("mpae study NAME --root DIR runs one on the paper's data; --dataset cub --root DIR --parts 8 on "
                    "other data; --dry-run tells what it would take.", highlight=False)


def print_plan(folder: StudyFolder, chosen: Study, request: Request, runs: list[PlannedRun],
               images: dict[str, tuple[int, int]]) -> None:
    """Every run, what it changes, and about how long it takes here."""
    from mpae.studies.estimate import estimate_hours
    from mpae.studies.expand import settings_of

    console, table, left = results(), new_table("row", "data", "seed", "changes", "steps", "hours", "run"), 0.0
    for run, cost in zip(runs, estimate_hours(folder, chosen, request, runs, images), strict=True):
        changes = ", ".join(f"{key}={value}" for key, value in settings_of(run).items())
        table.add_row(run.row.name, run.group.title, str(run.seed), changes or "nothing", str(cost.steps),
                      "done" if cost.done else f"{cost.hours:.2f}", run.name)
        left += 0 if cost.done else cost.hours
    console.print(table)
    common: dict[str, Any] = dict(chosen.settings) | dict(request.settings)
    said = ", ".join(f"{key}={value}" for key, value in common.items())
    console.print(f"{len(runs)} runs, preset {request.preset}{', ' + said if said else ''}; about {left:.1f} hours in "
                  f"all on this machine, one after the other; the study would be in '{folder}'. Nothing was written.",
                  highlight=False, soft_wrap=True)
