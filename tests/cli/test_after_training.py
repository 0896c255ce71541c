"""evaluate, predict and report through the real command, on a tiny run; the four benchmarks in miniature."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from miniatures import write_celeba, write_cub, write_partimagenet_ood, write_partimagenet_seg
from pictures import draw_photo
from PIL import Image
from pycocotools.coco import COCO
from tiny_run import make_tiny_run

from mpae.run import Run

Command = Callable[..., subprocess.CompletedProcess]
WRITERS = {"cub": write_cub, "celeba": write_celeba, "partimagenet-ood": write_partimagenet_ood,
           "partimagenet-seg": write_partimagenet_seg}
FIGURES = {"nmi", "ari", "foreground_nmi", "foreground_ari", "nme", "foreground_iou", "parts_per_image", "images"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    draw_photo(0, (70, 50)).save(folder / "a.jpg")
    draw_photo(1, (50, 90)).save(folder / "a.png")
    draw_photo(2, (33, 21)).save(folder / "sub" / "c.jpg")
    (folder / "torn.jpg").write_bytes(b"\xff\xd8nothing")
    return folder


@pytest.mark.parametrize("name", WRITERS)
def test_evaluate_gives_the_figures_of_each_benchmark(name: str, run: Run, mpae: Command, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / "data")
    figures_file = tmp_path / "figures.json"
    done = mpae("evaluate", run, "--dataset", name, "--root", tmp_path / "data", "--json", figures_file,
                "--workers", "0")
    assert done.returncode == 0, done.stderr
    figures = json.loads(figures_file.read_text())
    assert set(figures) >= FIGURES
    assert figures["images"] >= 1
    assert 0 <= figures["nmi"] <= 100
    assert (figures["nme"] is not None) == (name in ("cub", "celeba"))
    logged = [record for record in run.records() if record.get("evaluation") == name]
    assert logged[-1]["nmi"] == figures["nmi"]
    folder = run.folder / "evaluations" / f"{name}-test"
    with (folder / "images.csv").open() as file:
        assert len(list(csv.DictReader(file))) == figures["images"]
    assert json.loads((folder / "figures.json").read_text()) == figures
    assert figures["weights"] == run.weights_digest()
    assert Image.open(folder / "contingency.png").width > 50


def test_evaluate_fits_the_regression_on_as_many_images_as_asked(run: Run, mpae: Command, tmp_path: Path) -> None:
    write_cub(tmp_path / "data")
    words = ["evaluate", run, "--dataset", "cub", "--root", tmp_path / "data", "--json", tmp_path / "figures.json",
             "--nme-images", "3", "--workers", "0"]
    wrong = mpae(*words, "--no-nme")
    assert wrong.returncode == 2
    assert "leave out one of them" in wrong.stderr
    done = mpae(*words)
    assert done.returncode == 0, done.stderr
    assert "fit keypoints: 3/3" in done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["nme_images"], figures["limit"]) == (3, None)
    assert figures["nme"] is not None


def test_evaluate_and_predict_with_larger_images(run: Run, mpae: Command, gallery: Path, tmp_path: Path) -> None:
    write_cub(tmp_path / "data")
    at = ["evaluate", run, "--dataset", "cub", "--root", tmp_path / "data", "--no-nme", "--workers", "0"]
    done = mpae(*at, "--image-size", "96")
    assert done.returncode == 0, done.stderr
    assert json.loads((run.folder / "evaluations" / "cub-test-96" / "figures.json").read_text())["image_size"] == 96
    wrong = mpae(*at, "--image-size", "70")
    assert wrong.returncode == 2
    assert "64 or 80" in wrong.stderr
    out = tmp_path / "out"
    for size in ((), ("--image-size", "96", "--overwrite")):
        done = mpae("predict", run, gallery, "--out", out, "--workers", "0", "--write", "masks", *size)
        assert done.returncode == 0, done.stderr
    assert json.loads((out / "predictions.json").read_text())["settings"]["image_size"] == 96


def test_evaluate_with_outlines_of_pixels(run: Run, mpae: Command, tmp_path: Path) -> None:
    write_cub(tmp_path / "data")
    at = ["evaluate", run, "--dataset", "cub", "--root", tmp_path / "data", "--workers", "0", "--outline"]
    done = mpae(*at, "pixel")
    assert done.returncode == 0, done.stderr
    assert "pixel outlines" in " ".join(done.stdout.split())
    figures = json.loads((run.folder / "evaluations" / "cub-test-pixel" / "figures.json").read_text())
    assert figures["outline"] == "pixel"
    wrong = mpae(*at, "fine")
    assert wrong.returncode == 2
    assert "Unknown outline 'fine'" in wrong.stderr


def test_evaluate_says_what_is_missing(run: Run, mpae: Command, tmp_path: Path) -> None:
    write_cub(tmp_path / "data")
    (tmp_path / "data" / "parts" / "part_locs.txt").unlink()
    before = run.metrics_file.read_bytes() if run.metrics_file.exists() else b""
    done = mpae("evaluate", run, "--dataset", "cub", "--root", tmp_path / "data")
    assert done.returncode == 2
    assert "part_locs.txt" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (run.metrics_file.read_bytes() if run.metrics_file.exists() else b"") == before
    wrong = mpae("evaluate", run, "--dataset", "synthetic", "--parts", "7")
    assert wrong.returncode == 2
    assert "has 3 parts, which cannot become 7; ask for 2 to 3" in wrong.stderr


def test_parts_join_to_fewer(run: Run, mpae: Command, gallery: Path, tmp_path: Path) -> None:
    """Every part lies in one of the joined ones, in masks, tables and figures; the run keeps how."""
    for out, parts in (("three", ()), ("two", ("--parts", "2"))):
        done = mpae("predict", run, gallery, "--out", tmp_path / out, "--workers", "0", "--write", "masks,parts,coco",
                    *parts)
        assert done.returncode == 0, done.stderr
    part_of = json.loads((tmp_path / "two" / "predictions.json").read_text())["settings"]["part_of"]
    assert sorted(set(part_of)) == [0, 1]
    assert run.hierarchy_file.is_file()
    table = np.array([0, *(part + 1 for part in part_of)])
    for mask in (tmp_path / "three" / "masks").rglob("*.png"):
        joined = tmp_path / "two" / mask.relative_to(tmp_path / "three")
        assert np.array_equal(table[np.asarray(Image.open(mask))], np.asarray(Image.open(joined)))
    categories = json.loads((tmp_path / "two" / "coco.json").read_text())["categories"]
    assert [each["name"] for each in categories] == ["part-01", "part-02"]
    write_cub(tmp_path / "data")
    done = mpae("evaluate", run, "--dataset", "cub", "--root", tmp_path / "data", "--workers", "0", "--no-nme",
                "--parts", "2")
    assert done.returncode == 0, done.stderr
    assert "K = 2 joined from 3" in " ".join(done.stdout.split())
    figures = json.loads((run.evaluations / "cub-test-2-parts" / "figures.json").read_text())
    assert (figures["num_parts"], figures["joined_from"], len(figures["part_frequency"])) == (2, 3, 2)


def test_predict_writes_files_that_others_read(run: Run, mpae: Command, gallery: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = mpae("predict", run, gallery, "--out", out, "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert "3 images" in done.stdout
    assert "1 could not be read" in done.stdout
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"masks/a.jpg.png", "masks/a.png.png", "masks/sub/c.png", "parts.jsonl", "coco.json", "descriptors.npz",
            "features.npy", "skipped.txt"} <= files
    mask = np.asarray(Image.open(out / "masks" / "a.jpg.png"))
    assert mask.shape == (50, 70)
    coco = COCO(str(out / "coco.json"))
    assert [category["name"] for category in coco.loadCats(coco.getCatIds())] == ["part-01", "part-02", "part-03"]
    areas = sum(int(coco.annToMask(annotation).sum()) for annotation in coco.loadAnns(coco.getAnnIds()))
    masks = (np.asarray(Image.open(path)) for path in (out / "masks").rglob("*.png"))
    assert areas == sum(int((mask > 0).sum()) for mask in masks)
    again = mpae("predict", run, gallery, "--out", out, "--workers", "0")
    assert again.returncode == 0
    assert "3 of them from before" in again.stdout


def test_predict_mistakes_are_one_sentence(run: Run, mpae: Command, gallery: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    for words, expected in {
        (run, gallery, "--out", gallery / "masks"): "lies inside",
        (run, tmp_path / "nowhere", "--out", tmp_path / "o"): "No such folder",
        (run, gallery, "--out", foreign): "holds no predictions",
        (run, gallery, "--out", tmp_path / "o", "--write", "mask"): "choose from",
        (tmp_path / "norun", gallery, "--out", tmp_path / "o"): "norun",
        (gallery, gallery, "--out", tmp_path / "o"): "not a run folder",
    }.items():
        done = mpae("predict", *words)
        assert done.returncode == 2, done.stderr
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "o").exists()
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_report_of_the_images_at_hand(run: Run, mpae: Command, gallery: Path) -> None:
    done = mpae("report", run, "--images", gallery, "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert str(run.report) in done.stdout.replace("\n", "")
    assert run.report.is_file()


def test_lists(mpae: Command) -> None:
    datasets = mpae("datasets")
    assert datasets.returncode == 0
    for text in (*WRITERS, "synthetic", "folder", "part_locs.txt", "5,994", "licence"):
        assert text in datasets.stdout
    assert "loss.border" in mpae("settings").stdout
    assert "dinov2-vitb14-reg" in mpae("backbones").stdout
    assert mpae("--version").stdout.startswith("mpae ")


def test_predict_in_int8_and_bfloat16_agrees_with_float32(run: Run, mpae: Command, gallery: Path,
                                                          tmp_path: Path) -> None:
    masks, runs = {}, set()
    for flags in ((), ("--int8",), ("--precision", "bfloat16")):
        out = tmp_path / f"parts{len(flags)}"
        done = mpae("predict", run, gallery, "--out", out, "--workers", "0", *flags)
        assert done.returncode == 0, done.stderr
        assert "differs from the one" not in done.stderr
        masks[flags] = np.concatenate([np.asarray(Image.open(file)).ravel()
                                       for file in sorted((out / "masks").rglob("*.png"))])
        runs.add(json.loads((out / "predictions.json").read_text())["settings"]["run"])
    for flags in masks:
        assert (masks[()] == masks[flags]).mean() > 0.9
    assert len(runs) == 3  # predictions of one arithmetic are not gone on with in another
    both = mpae("predict", run, gallery, "--out", tmp_path / "both", "--int8", "--precision", "bfloat16")
    assert both.returncode == 2
    assert "--int8 and --precision bfloat16 both say how the backbone computes" in both.stderr
    assert not (tmp_path / "both").exists()


def test_evaluate_in_bfloat16_is_near_float32(run: Run, mpae: Command, tmp_path: Path) -> None:
    figures = []
    for number, precision in enumerate(("float32", "bfloat16")):
        file = tmp_path / f"{number}.json"
        done = mpae("evaluate", run, "--dataset", "synthetic", "--limit", 8, "--no-nme", "--workers", "0",
                    "--precision", precision, "--json", file)
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(file.read_text()))
    assert figures[1]["precision"] == "bfloat16"
    assert figures[0]["foreground_iou"] == pytest.approx(figures[1]["foreground_iou"], abs=3)
