"""Flags that several verbs share; those of the settings are in settings_flags.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="say nothing but errors")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace what is there")]
RUN_HELP = "a run folder, made by `mpae fit`, a run that comes with mpae (`mpae runs`), or hf://user/name"
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)]
ImageSize = Annotated[int | None, typer.Option(
    "--image-size", min=14, max=4096,
    help="side at which the backbone sees images, if not that of training; larger is finer and slower")]
Arithmetic = Annotated[Literal["float32", "bfloat16"] | None, typer.Option(
    "--precision", help="arithmetic of the backbone, if not that of training: float32, or bfloat16, about three "
                        "times as fast on a CPU that has it (`mpae doctor`)")]
BatchSize = Annotated[int, typer.Option(min=1, help="images that go through the model together")]
Device = Annotated[str, typer.Option(help="where the model runs: auto, cpu, cuda or mps; auto is a GPU by CUDA "
                                     "where there is one")]
Workers = Annotated[int, typer.Option(min=0, help="processes that decode images")]
Preset = Annotated[str | None, typer.Option(help="laptop or paper; the default follows the machine")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="a YAML file of settings")]
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE",
                                                       help="any setting; `mpae settings` lists them")]
Outline = Annotated[str, typer.Option(help="of masks: pixel, the edges in the photo, at about 0.1 s per photo, or "
                                      "patch, the grid of patches")]
