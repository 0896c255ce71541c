"""The command: verbs only. Parse, call, print."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mpae import __version__
from mpae.cli.settings_flags import with_settings
from mpae.errors import MPAEError

app = typer.Typer(
    name="mpae", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Finds the parts of things in pictures that nobody has labelled.",
    context_settings={"help_option_names": ["-h", "--help"]})
out = Console()
err = Console(stderr=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="say nothing but errors")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace what is there")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder, made by `mpae fit`")]


@app.command(rich_help_panel="Verbs")
def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", help="where to put run, pictures and report")] = Path("demo"),
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Everything once, on images that it draws itself: learn parts, measure them, show them."""
    from mpae.cli.demo import demo_verb

    speak(quiet)
    demo_verb(folder, overwrite, Console(stderr=True, quiet=quiet), out)


@app.command(rich_help_panel="Verbs")
@with_settings()
def fit(
    images: Annotated[Path | None, typer.Argument(metavar="IMAGES", help="a folder of images")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="the run folder to make")] = None,
    preset: Annotated[str | None, typer.Option(help="laptop or paper; the default follows the machine")] = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="a YAML file of settings")] = None,
    assignments: Annotated[list[str] | None, typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="any setting; `mpae settings` lists them")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    settings: Any = None,
) -> None:
    """Learn the parts of the things in a folder of images, or in a dataset (--dataset NAME --root DIR)."""
    from mpae.cli.fit import fit_verb

    speak(quiet)
    fit_verb(images, out_folder, preset, config_file, assignments or [], resume, overwrite, settings,
             Console(stderr=True, quiet=quiet))


@app.command(rich_help_panel="Verbs")
def predict(
    run: RunFolder,
    images: Annotated[Path, typer.Argument(metavar="IMAGES", help="a folder, an image, or a .txt list of paths")],
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the folder to write")],
    write: Annotated[str, typer.Option(help="what to write: masks, overlays, parts, coco, descriptors, "
                                       "probabilities")] = "masks,overlays,parts,coco,descriptors",
    image_size: Annotated[int | None, typer.Option("--image-size", min=14, max=4096, help="side at which the backbone "
                          "sees images, if not that of training; larger is finer and slower")] = None,
    flip: Annotated[bool, typer.Option("--flip", help="average with the mirror image; twice the time")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="8-bit arithmetic in the backbone, on a CPU")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="images that go through the model together")] = 16,
    workers: Annotated[int, typer.Option(min=0, help="processes that decode images")] = 2,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Masks, overlays, tables and COCO annotations of the parts in images; a second call goes on."""
    from mpae.cli.predict import predict_verb

    speak(quiet)
    predict_verb(run, images, out_folder, write, image_size, flip, int8, batch_size, workers, overwrite,
                 Console(stderr=True, quiet=quiet), Console(quiet=quiet))


@app.command(rich_help_panel="Verbs")
def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="a run folder, made by `mpae fit`")] = None,
    dataset: Annotated[str, typer.Option(help="which benchmark; `mpae datasets` lists them")] = ...,  # type: ignore
    root_folder: Annotated[Path | None, typer.Option("--root", help="folder of the downloaded benchmark")] = None,
    split: Annotated[str, typer.Option(help="train, test, validation, ...")] = "test",
    json_file: Annotated[Path | None, typer.Option("--json", help="write all figures to this file; "
                                              "of a baseline also one row an image, beside it as .csv")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="only so many images, spread over the split")] = None,
    nme: Annotated[bool, typer.Option("--nme/--no-nme", help="the keypoint regression, which needs a pass over "
                                      "the training split")] = True,
    nme_images: Annotated[int | None, typer.Option("--nme-images", min=1, help="fit that regression on so many "
                          "training images, spread over the split, instead of all")] = None,
    image_size: Annotated[int | None, typer.Option("--image-size", min=14, max=4096, help="side at which the backbone "
                          "sees images, if not that of training; larger is finer and slower")] = None,
    baseline: Annotated[str | None, typer.Option(help="instead of a run: dino-kmeans")] = None,
    parts: Annotated[int | None, typer.Option(min=1, max=1000, help="K of the baseline")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="images that go through the model together")] = 32,
    workers: Annotated[int, typer.Option(min=0, help="processes that decode images")] = 2,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="keep frozen features for the next "
                                        "evaluation")] = False,
    quiet: Quiet = False,
) -> None:
    """NMI, ARI, NME, foreground IoU and more on a benchmark, beside the paper's figures."""
    from mpae.cli.evaluate import evaluate_verb

    speak(quiet)
    evaluate_verb(run, dataset, root_folder, split, json_file, limit, nme, nme_images, image_size, baseline, parts,
                  batch_size, workers, cache, Console(stderr=True, quiet=quiet), out)


@app.command(rich_help_panel="Verbs")
def report(
    run: RunFolder,
    images: Annotated[Path | None, typer.Option(help="a folder of images; else those of its training")] = None,
    against: Annotated[Path | None, typer.Option(metavar="RUN2", help="another run to compare with")] = None,
    limit: Annotated[int, typer.Option(min=1, help="how many images to look at")] = 200,
    quiet: Quiet = False,
) -> None:
    """Write RUN/report/index.html: figures, every part, presence, restorations, attention, training."""
    from mpae.cli.report import report_verb

    speak(quiet)
    report_verb(run, images, against, limit, Console(stderr=True, quiet=quiet), out)


@app.command(rich_help_panel="Verbs")
def export(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="the file to write")],
    int8: Annotated[bool, typer.Option("--int8", help="8-bit weights: a quarter of the size, not exact")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write backbone and PartFormer as one ONNX graph, checked against ours with ONNX Runtime."""
    from mpae.cli.export import export_verb

    speak(quiet)
    export_verb(run, file, int8, overwrite, Console(quiet=quiet))


@app.command(rich_help_panel="Verbs")
def show(
    run: RunFolder,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="one image file")],
    out_file: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.png",
                                                  help="the picture to write; IMAGE-parts.png beside the image if "
                                                       "not given")] = None,
    quiet: Quiet = False,
) -> None:
    """A quick look at the parts of one image: here in the terminal, and as a PNG."""
    from mpae.cli.show import show_verb

    speak(quiet)
    show_verb(run, image, out_file, Console(quiet=quiet))


@app.command(rich_help_panel="Verbs")
def push(
    run: RunFolder,
    repo_id: Annotated[str, typer.Argument(metavar="USER/NAME", help="where on the Hugging Face Hub")],
    private: Annotated[bool, typer.Option("--private", help="only you can see it")] = False,
    licence: Annotated[str | None, typer.Option(help="of the trained weights, such as apache-2.0")] = None,
    preview: Annotated[bool, typer.Option("--preview/--no-preview", help="upload the last preview, which shows "
                                          "training images")] = True,
    quiet: Quiet = False,
) -> None:
    """Upload a run folder with a model card to the Hugging Face Hub."""
    from mpae.cli.push import push_verb

    speak(quiet)
    push_verb(run, repo_id, private, licence, preview, Console(quiet=quiet))


@app.command(rich_help_panel="Verbs")
def bench(
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="a text file for the table")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="a file for every figure")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="tiny models, seconds: only shows that it runs")] = False,
    only: Annotated[str, typer.Option(help="only measurements with this in their name, such as training")] = "",
) -> None:
    """Speed and memory as ratios to a plain reading of the paper, in one run."""
    from mpae.cli.bench import bench_verb

    bench_verb(out_file, json_file, quick, only, out)


@app.command(rich_help_panel="Lists")
def datasets() -> None:
    """List the datasets: the folder tree each expects, where to get it, its licence and splits."""
    from mpae.cli.lists import print_datasets

    print_datasets(out)


@app.command(rich_help_panel="Lists")
def settings() -> None:
    """List every setting with its default, for --set and --config."""
    from mpae.cli.lists import print_settings

    print_settings(out)


@app.command(rich_help_panel="Lists")
def backbones() -> None:
    """List the backbones that have a name."""
    from mpae.cli.lists import print_backbones

    print_backbones(out)


def show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"mpae {__version__}")
        raise typer.Exit


@app.callback()
def root(version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True,
                                               help="print the version")] = False) -> None:
    pass


def speak(quiet: bool) -> None:
    """The library's messages, plain, on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("mpae")
    logger.handlers = [handler]
    logger.setLevel(logging.ERROR if quiet else logging.INFO)


UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """A user's mistake: one sentence, exit code 2. Ctrl-C: 130. A bug keeps its traceback."""
    warnings.filterwarnings("ignore", module="PIL")  # of odd files; those that cannot be read are listed
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except MPAEError as error:
        message = str(error)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.exit(2)
        message = error.format_message()
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    print(f"mpae: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)

