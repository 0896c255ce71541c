"""`mpae export`: the model as an ONNX file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Device, Overwrite, Quiet, RunFolder
from mpae.cli.progress import busy
from mpae.errors import MPAEError


def export(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="the file to write")],
    int8: Annotated[bool, typer.Option("--int8", help="8-bit weights: a quarter of the size, not exact")] = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write backbone and PartFormer as one ONNX graph, checked against ours with ONNX Runtime."""
    from mpae.devices import choose_device
    from mpae.export.onnx import export_onnx, load_for_export
    from mpae.hub import run_folder
    from mpae.prediction.part_names import PartNames

    console = messages(quiet)
    if file.suffix.lower() != ".onnx":
        raise MPAEError(f"'{file}' does not end in .onnx, the only format that mpae exports to.")
    if file.is_dir():
        raise MPAEError(f"'{file}' is a folder; give the name of a file.")
    if file.exists() and not overwrite:
        raise MPAEError(f"'{file}' exists already; replace it with --overwrite, or choose another name.")
    folder = run_folder(run)
    with busy(console, "load the model"):
        model = load_for_export(folder).to(choose_device(device))
    with busy(console, "write the graph and check it"):
        done = export_onnx(model, file, int8=int8, names=PartNames.load(folder, model.num_parts))
    out = results(quiet)
    out.print(f"Wrote {done.file} ({done.megabytes:.0f} MB).", highlight=False, soft_wrap=True)
    out.print(f"ONNX Runtime gives the labels of mpae on {done.exact_agreement:.3%} of pixels.", highlight=False)
    if int8:
        out.print(f"With int8, as written: on {done.agreement:.3%} of pixels.", highlight=False)
