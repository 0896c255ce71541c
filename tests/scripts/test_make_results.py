"""docs/studies/results.md from tiny runs on a miniature CUB: the page says what the files say, and shows no photo."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from miniatures import write_cub
from PIL import Image
from tiny_run import make_run, tiny_settings

import make_results
from mpae.cli.evaluate import evaluate
from mpae.config import Config, all_settings, parse_assignment, resolve
from mpae.data.source import Annotation
from mpae.drawing.palette import part_colours
from mpae.errors import MPAEError
from mpae.evaluation.paper import paper_row
from mpae.evaluation.result import Contingency
from mpae.model.load import load_model
from mpae.run import Run
from results import commands, findings, page, strips
from results.reading import Measured, Row, Study, read_baseline, read_studies

SCRIPT = Path(make_results.__file__)
PARTS = 4
REMARKS = "The *left* wing of **nobody** is told from the right.\n"


def evaluated(folder: Path, root: Path, settings: dict[str, object]) -> Run:
    run = make_run(folder, resolve("laptop", None, settings))
    for step in (1, 2):
        run.log({"step": step, "epoch": step, "minutes": 1.5 * step, "total": 5.0 - step})
    evaluate(folder, dataset="cub", root_folder=root, batch_size=4, workers=0, quiet=True)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with K = 4, one run with K = 3, a baseline with K = 4, the page."""
    folder = tmp_path_factory.mktemp("results")
    root = write_cub(folder / "CUB", images=30).root
    base = tiny_settings(folder) | {"data.dataset": "cub", "data.root": str(root), "model.num_parts": PARTS}
    for name, changed in {"seed0": {}, "seed1": {"training.seed": 1}, "three": {"model.num_parts": 3}}.items():
        evaluated(folder / name, root, base | changed)
    content = json.loads(figures_file(folder / "seed1").read_text())
    better = content["foreground_iou"] + 3.21  # the weights are those of seed0, and so are the figures
    figures_file(folder / "seed1").write_text(json.dumps(content | {"foreground_iou": better}))
    with pytest.MonkeyPatch.context() as patch:  # clusters of real features would take a minute
        patch.setattr("mpae.evaluation.systems.baseline_model", lambda *_: load_model(folder / "seed0"))
        evaluate(dataset="cub", root_folder=root, json_file=folder / "base.json", nme=False, baseline="dino-kmeans",
                 parts=PARTS, batch_size=4, workers=0, quiet=True)
    (folder / "remarks.md").write_text(REMARKS)
    make_results.make_results([folder / name for name in ("three", "seed1", "seed0")], [folder / "base.json"], None,
                              folder / "docs" / "results.md", folder / "remarks.md")
    return folder


def figures_file(run: Path) -> Path:
    return run / "evaluations" / "cub-test" / "figures.json"


def text_of(folder: Path) -> str:
    return (folder / "docs" / "results.md").read_text()


def cells(text: str, start: str) -> list[str]:
    """The cells of the first table row that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_figures_are_those_of_the_files(folder: Path) -> None:
    text = text_of(folder)
    paper = paper_row("cub", PARTS)
    for name in ("seed0", "seed1"):
        stored = json.loads(figures_file(folder / name).read_text())
        _, nmi, ari, nme, iou, parts, images, side, minutes, steps, seed, backbone = cells(text, f"[{name}]")
        for shown, key in ((nmi, "nmi"), (ari, "ari"), (nme, "nme")):
            difference = stored[key] - paper["MPAE"][key]
            assert shown == f"{stored[key]:.2f} ({difference:+.2f})".replace("-", "−")
        assert (iou, parts) == (f"{stored['foreground_iou']:.2f}", f"{stored['parts_per_image']:.2f}")
        assert (images, side, minutes, steps, seed) == ("15", "64 px", "3.0", "2", name[-1])
        assert backbone == "WEIGHTS/tiny.safetensors"
    baseline = json.loads((folder / "base.json").read_text())
    assert cells(text, "baseline: clustering")[3:6] == ["", f"{baseline['foreground_iou']:.2f}",
                                                        f"{baseline['parts_per_image']:.2f}"]
    assert "mpae evaluate --baseline dino-kmeans --parts 4 --dataset cub --root ROOT --no-nme --image-size 64" in text
    assert cells(text, "the paper: MPAE")[1:5] == ["58.93", "33.73", "7.75", ""]
    assert text.index("[seed0]") < text.index("[seed1]") < text.index("baseline: clus") < text.index("the paper: MPAE")
    assert REMARKS in text


def test_mean_and_deviation_are_those_of_runs_that_differ_in_seed_alone(folder: Path) -> None:
    text = text_of(folder)
    assert text.count("mean ± deviation over") == 1
    stored = [json.loads(figures_file(folder / name).read_text()) for name in ("seed0", "seed1")]
    row = cells(text, "**mean ± deviation over 2 seeds**")
    nmi = stored[0]["nmi"]  # of both
    assert row[1] == f"{nmi:.2f} ± 0.00 ({nmi - paper_row('cub', PARTS)['MPAE']['nmi']:+.2f})".replace("-", "−")
    ious = [each["foreground_iou"] for each in stored]
    assert row[4] == f"{sum(ious) / 2:.2f} ± {3.21 / 2 ** 0.5:.2f}"
    assert row[6:8] == ["15", "64 px"]
    assert row[10] == "0, 1"


def test_no_mean_where_a_run_has_no_figure() -> None:
    assert page.mean_cell([1.0, None], "nme", None) == ""
    assert page.mean_cell([1.0, 2.0, 4.5], "nme", {"nme": 3.0}) == "2.50 ± 1.80 (−0.50)"


def test_the_page_names_no_folder_of_this_machine_and_all_its_pictures_are_there(folder: Path) -> None:
    text = text_of(folder)
    assert str(folder) not in text
    shown = re.findall(r"\]\((\S+\.png)\)", text)
    assert len(shown) == 6
    for name in shown:
        assert (folder / "docs" / name).stat().st_size < 150_000


def test_the_command_gives_exactly_the_settings_of_the_run(folder: Path) -> None:
    flags = {field.json_schema_extra["flag"]: name for name, field in all_settings() if field.json_schema_extra}
    for study in read_studies([folder / "seed1", folder / "three"]):
        words = commands.fit_command(study).split()[2:]
        given = dict(zip(words[::2], words[1::2], strict=True))
        sets = [value for flag, value in zip(words[::2], words[1::2], strict=True) if flag == "--set"]
        overrides = dict(map(parse_assignment, sets)) | {
            flags[flag]: value for flag, value in given.items() if flag in flags}
        file = SCRIPT.parents[1] / given["--config"] if "--config" in given else None
        overrides["backbone.name"] = study.config.backbone.name
        assert commands.changes(resolve(given["--preset"], file, overrides), study.config) == []
        assert (given["--root"], given["--out"]) == ("ROOT", f"runs/{study.name}")


def test_an_experiment_is_named_by_its_file(folder: Path) -> None:
    file = SCRIPT.parents[1] / "experiments" / "cub_k8.yaml"
    config = resolve("laptop", file, {"data.root": "/mine", "training.seed": 1})
    study = Study("cub_k8_seed1", Run(folder), config, 1, 1.0, [measured_of([[1]], [], 0)])
    assert commands.fit_command(study) == ("mpae fit --preset laptop --config experiments/cub_k8.yaml --seed 1 "
                                           "--root ROOT --out runs/cub_k8_seed1")


def test_an_evaluation_at_another_size_has_its_own_row_and_command(folder: Path) -> None:
    large = replace(measured_of([[1]], [], 0), image_size=336)
    study = Study("mine", Run(folder), resolve("laptop"), 1, 1.0, [large, measured_of([[1]], [], 0)])
    at_336, at_224 = commands.evaluate_commands(study)
    assert at_336 == f"{at_224} --image-size 336"
    rows = [line for line in page.overview([study], []).splitlines() if line.startswith("| [mine]")]
    assert ["| 336 px |" in row for row in rows] == [True, False]
    assert "| 224 px |" in rows[1]


@pytest.mark.parametrize(("name", "value"), [("loss.pixel", None), ("training.milestones", (0.5, 0.75)),
                                             ("cache.enabled", False), ("loss.reading", "paper")])
def test_values_read_back(name: str, value: object) -> None:
    key, read = parse_assignment(f"{name}={commands.shown(name, value)}")
    assert (key, tuple(read) if isinstance(read, list) else read) == (name, value)


# -- strips


def test_strips_of_the_page_hold_no_colour_of_a_photo(folder: Path) -> None:
    allowed = {tuple(colour) for colour in part_colours(PARTS).tolist()} | set(strips.COLOURS.values())
    for name in ("seed0", "seed0-worst"):
        picture = Image.open(folder / "docs" / "results" / f"{name}.png")
        assert picture.mode == "P"
        found = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
        assert found <= allowed
        assert found & {tuple(colour) for colour in part_colours(PARTS).tolist()}
    photos = Image.open(folder / "seed0" / "strip.jpg")
    assert len(photos.getcolors(1 << 24)) > 1000
    assert (folder / "seed0" / "strip-worst.jpg").is_file()


def test_a_cell_shows_parts_outline_and_visible_keypoints() -> None:
    mask = np.zeros((160, 160), dtype=np.uint8)
    mask[40:120, 40:80], mask[40:120, 80:120] = 1, 2
    foreground = np.zeros((160, 160), dtype=bool)
    foreground[20:140, 20:140] = True
    annotation = Annotation(keypoints=np.array([[60.0, 60.0], [100.0, 60.0]]), visible=np.array([True, False]),
                            foreground=foreground)
    photo = Image.new("RGB", (160, 160), (11, 22, 33))
    picture = np.asarray(strips.draw_parts([strips.Cell(photo, mask, annotation, "IoU 7")], 2))
    cell = picture[strips.GAP:strips.GAP + strips.CELL, strips.GAP:strips.GAP + strips.CELL]
    assert (cell[50, 50], cell[50, 100], cell[5, 5]) == (1, 2, 0)
    assert (cell[60, 60], cell[60, 100]) == (strips.PAPER, 2)  # a dot for the visible one alone
    assert (cell[60, 63], cell[20, 80], cell[21, 80]) == (strips.INK, strips.RIM, 0)
    assert set(np.unique(picture)) == {0, 1, 2, strips.RIM, strips.INK, strips.PAPER}


def test_rows_of_a_study_hold_indices_alone() -> None:
    mask = np.ones((80, 160), dtype=np.uint8)
    cell = strips.Cell(Image.new("RGB", (160, 80), (11, 22, 33)), mask, Annotation(), "")
    picture = np.asarray(strips.draw_rows({"one": [cell, cell], "another": [cell]}, 2))
    step = strips.CELL + strips.GAP
    assert picture.shape == (strips.GAP + 2 * step, 2 * strips.CELL + 2 * step)
    assert set(np.unique(picture)) == {1, strips.INK, strips.PAPER}
    assert (picture == 1).sum() == 3 * mask.size


def test_what_is_a_sample_is_said() -> None:
    whole = replace(measured_of([[1, 0]], ["beak"], 1), system="whole")
    assert page.samples([], [whole]) == []
    some = replace(whole, system="some", limit=500, nme_images=1500)
    warning, note = page.samples([], [whole, some])
    assert warning.startswith("**some at 224 px was evaluated on a sample of 1 images")
    assert note.startswith("The NME of some at 224 px comes from a regression on 1,500 images")
    assert commands.baseline_command(some).endswith("--root ROOT --limit 500 --nme-images 1500")


# -- findings


def measured_of(table: list[list[int]], targets: list[str], parts: int, rows: list[Row] | None = None) -> Measured:
    names = [*(f"part-{part:02d}" for part in range(1, parts + 1)), "background"]
    figures = {"nmi": 1.0, "ari": 1.0, "nme": 1.0, "foreground_iou": 1.0, "parts_per_image": 1.0, "images": 1}
    return Measured("mpae", parts, 224, None, None, figures, [100.0] * parts,
                    Contingency(np.array(table), targets, names), rows or [])


def row(number: int, iou: float, touches: bool = False, share: float = 20.0, lost: int = 0) -> Row:
    return Row(number, f"{number}.jpg", iou, 20.0, share, touches, 10, lost)


def test_border_groups_by_hand() -> None:
    rows = [row(0, 90, True, lost=5), row(1, 30, True, lost=1), row(2, 80), row(3, 39.9, lost=1), row(4, 60)]
    touching, inside = findings.by_border(rows).values()
    assert touching == findings.Group(images=2, iou=60, poor=50, on_background=30)
    assert (inside.images, inside.iou) == (3, pytest.approx(59.9667, abs=1e-3))
    assert (inside.poor, inside.on_background) == (pytest.approx(100 / 3), pytest.approx(10 / 3))
    assert findings.group([]).images == 0
    assert [each.number for each in findings.worst(rows, 2)] == [1, 3]


def test_groups_of_a_run_are_those_of_its_masks(folder: Path) -> None:
    rows = read_studies([folder / "seed0"])[0].measured.rows
    stored = json.loads(figures_file(folder / "seed0").read_text())
    assert findings.group(rows).iou == pytest.approx(stored["foreground_iou"], abs=1e-3)
    table = np.array(stored["contingency"]["table"])
    assert findings.group(rows).on_background == pytest.approx(100 * table[:, -1].sum() / table.sum())
    groups = findings.by_border(rows).values()
    assert sum(group.images for group in groups) == 15


def test_foreground_says_how_it_fails() -> None:
    rows = [row(0, 10, share=60), row(1, 20, share=5), row(2, 30, share=20), row(3, 90)]
    said = findings.foreground(rows)
    assert "3 of 4 (75.0 %) images have an IoU below 40" in said
    assert said.count("1 of 3 (33.3 %)") == 2
    assert "the parts cover 1.00 times the object's area in the median image" in said
    assert findings.foreground(rows[3:]).endswith("median image; 0 of 1 (0.0 %) images have an IoU below 40.")


def test_mistakes_are_read_off_the_table() -> None:
    found = measured_of([[90, 0, 10], [80, 0, 20], [10, 60, 30], [5, 65, 30], [45, 45, 10], [0, 0, 0]],
                        ["beak", "crown", "left wing", "right wing", "tail", "nape"], 2)
    lost, merged, scattered, sides, unused = findings.sentences(found)[1:]
    assert lost == ("Keypoints on the background: 20.0 % of the visible ones; most of all left wing (30 %), right wing "
                    "(30 %), crown (20 %).")
    assert "4 of 6 must share): part-01: beak, crown; part-02: left wing, right wing." in merged
    assert scattered.endswith("in any: tail.")
    assert "wing 95 % (not told apart)" in sides
    assert unused.count("none") == 2
    apart = measured_of([[100, 0, 0, 0], [0, 100, 0, 0]], ["left eye", "right eye"], 3)
    lost, merged, _, sides, unused = findings.sentences(apart)[1:]
    assert "none of them" in lost
    assert merged == "Keypoints merged in one part: none."
    assert "eye 0 % (told apart)" in sides
    assert "off the object: part-03 (in 100 % of the images)" in unused


def test_ahead_and_behind() -> None:
    ours = {"nmi": 70.0, "ari": 40.0, "nme": 5.0, "foreground_iou": 60.0}
    theirs = {"nmi": 68.0, "ari": 45.5, "nme": 6.25}
    assert page.against(ours, theirs) == "NMI 2.00 ahead, ARI 5.50 behind, NME 1.25 ahead"


def test_seeds_and_machines_do_not_tell_runs_apart() -> None:
    one = page.but_for_the_seed(Config())
    assert page.but_for_the_seed(Config().with_values({"training.seed": 7, "data.root": "x", "data.workers": 3})) == one
    assert page.but_for_the_seed(Config().with_values({"loss.border": 1.0})) != one


# -- mistakes


def refused(runs: list[Path], baselines: list[Path], out: Path) -> str:
    with pytest.raises(MPAEError) as caught:
        make_results.make_results(runs, baselines, None, out / "results.md", out / "remarks.md")
    assert "\n" not in str(caught.value)
    assert list(out.iterdir()) == []
    return str(caught.value)


def test_what_is_missing_is_one_sentence_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    bare, later, dark = (Path(shutil.copytree(folder / "seed0", tmp_path / name)) for name in ("bare", "later", "dark"))
    shutil.rmtree(bare / "evaluations")
    assert refused([folder / "seed1", bare], [], out) == (
        f"No evaluation on the test split of cub in {bare}; make it with `mpae evaluate {bare} --dataset cub --root "
        f"ROOT`.")
    (later / "model.safetensors").write_bytes((folder / "three" / "model.safetensors").read_bytes())
    assert "was trained on after its evaluation" in refused([later], [], out)
    content = json.loads(figures_file(dark).read_text())
    figures_file(dark).write_text(json.dumps(content | {"foreground_iou": None}))
    assert "has no foreground IoU" in refused([dark], [], out)
    figures_file(dark).write_text("{")
    assert "expected the JSON of `mpae evaluate`" in refused([dark], [], out)
    assert "is no evaluation of a baseline" in refused([folder / "seed0"], [figures_file(folder / "seed0")], out)
    assert "Two runs are called 'seed0'" in refused([folder / "seed0", folder / "seed0"], [], out)


def test_rows_without_the_border_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "base.json", tmp_path / "old.json")
    (tmp_path / "old.csv").write_text("number,name,foreground_iou\n0,a.jpg,50\n")
    with pytest.raises(MPAEError, match="does not hold the rows of an evaluation"):
        read_baseline(tmp_path / "old.json")


def test_the_script_ends_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("make_results: No run folder")
    assert done.stderr.count("\n") == 1
