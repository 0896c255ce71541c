"""`mpae import`: a checkpoint of the released program as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Overwrite, Quiet
from mpae.errors import MPAEError


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.pth", help="such as CUB_K16.pth, as the authors publish it")],
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the run folder to make")],
    dataset: Annotated[str | None, typer.Option(help="the dataset of the published model, to record its settings and "
                                                "check that size and K are its own")] = None,
    backbone: Annotated[str | None, typer.Option(help="a name or a weights file, instead of the backbone that the "
                                                 "file carries or, if it has none, of DINOv2 from the hub")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Make a run folder of a checkpoint of the authors' program; it predicts, evaluates and exports like any other."""
    from mpae.export.import_released import import_released, read_checkpoint

    messages(quiet)
    checkpoint = read_checkpoint(file)
    if dataset is not None:
        check_parts(file, dataset, checkpoint.num_parts)
    run = import_released(checkpoint, out_folder, dataset, backbone, overwrite)
    config = run.config()
    out = results(quiet)
    out.print(f"Imported {config.model.num_parts} parts at {config.data.image_size} px into '{run}' "
              f"(backbone: {config.backbone.name}).", highlight=False, soft_wrap=True)
    out.print(f"Use it:      mpae predict {run} IMAGES --out DIR", highlight=False, soft_wrap=True, markup=False)


def check_parts(file: Path, dataset: str, num_parts: int) -> None:
    """K must be one that the paper has for the dataset."""
    from mpae.data.catalogue import find_dataset
    from mpae.evaluation.paper import PAPER

    find_dataset(dataset)
    known = PAPER.get(dataset, {})
    if known and num_parts not in known:
        raise MPAEError(f"'{file}' has {num_parts} parts, and the published models of {dataset} have "
                        f"{', '.join(map(str, known))}; name the dataset that it is from, or leave out --dataset.")
