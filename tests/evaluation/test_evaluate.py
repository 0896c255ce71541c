"""Evaluation of models whose maps are known, on sources in memory."""

from __future__ import annotations

import csv
import json
import os
import socket
import tracemalloc

import numpy as np
import pytest
import torch
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F
from PIL import Image
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from mpae.data.source import Annotation, Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.evaluation.evaluate import evaluate
from mpae.metrics.foreground import foreground_iou
from mpae.metrics.metric import EvaluationMetric, FoundParts, Task
from mpae.metrics.registry import FIGURES, EvaluationFigure
from mpae.model.protocol import PartMaps
from mpae.prediction.predictor import PartPredictor

PARTS = 3  # their colours are 60, 120 and 180; the background's is 240
LEVELS = np.array([60, 120, 180, 240], dtype=np.uint8)


class Figures:
    """Pictures whose grey level tells the part: bands of part 0, 1 and 2 in a frame of background."""

    keypoint_names: tuple[str, ...] = ()
    part_names: tuple[str, ...] = ("head", "body", "tail")
    has_foreground = True

    def __init__(self, count: int = 10, broken: tuple[int, ...] = (), size: tuple[int, int] = (96, 64)):
        self.names = [f"{index:03d}.png" for index in range(count)]
        self.broken, self.size = broken, size

    def __len__(self) -> int:
        return len(self.names)

    def labels(self, index: int) -> np.ndarray:
        width, height = self.size
        random = np.random.default_rng(index)
        labels = np.full((height, width), PARTS, dtype=np.uint8)
        left, right = int(random.integers(4, width // 4)), int(random.integers(3 * width // 4, width - 4))
        edges = np.linspace(left, right, PARTS + 1).astype(int)
        top, bottom = height // 4, 3 * height // 4
        for part in range(PARTS):
            labels[top:bottom, edges[part]:edges[part + 1]] = part
        return labels

    def __getitem__(self, index: int) -> Picture:
        if index in self.broken:
            raise UnreadableImage("the file is empty")
        grey = LEVELS[self.labels(index)]
        return Picture(self.names[index], Image.fromarray(np.stack([grey] * 3, axis=-1)), f"{index:032x}")

    def annotation(self, index: int) -> Annotation:
        labels = self.labels(index)
        return Annotation(part_mask=labels, foreground=labels != PARTS)


class FiguresWithKeypoints(Figures):
    """The same pictures; people marked the middle of each part, and a point that is not visible."""

    keypoint_names = ("head", "body", "tail", "hidden")
    part_names = ()

    def annotation(self, index: int) -> Annotation:
        labels = self.labels(index)
        points = [np.argwhere(labels == part).mean(0)[::-1] + 0.5 for part in range(PARTS)]
        rows, columns = np.nonzero(labels != PARTS)
        box = (columns.min(), rows.min(), columns.max() - columns.min() + 1.0, rows.max() - rows.min() + 1.0)
        return Annotation(keypoints=np.array([*points, [0.0, 0.0]]), box=box, foreground=labels != PARTS,
                          visible=np.array([True, True, True, False]))


class Oracle:
    """Reads the part off the grey level."""

    num_parts, image_size = PARTS, 64

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        levels = torch.from_numpy(LEVELS / 255).float().view(1, -1, 1, 1)
        return -1000 * (images[:, :1] - levels) ** 2  # (B, K+1, 64, 64)


class Constant(Oracle):
    """Sees the same part everywhere."""

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, 5.0, 0.0, 0.0]).view(1, -1, 1, 1).expand(len(images), -1, 4, 4)


class Noise(Oracle):
    """Logits that depend on the picture in no sensible way."""

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        coarse = F.avg_pool2d(images[:, :1], 8)
        return torch.cat([torch.sin(coarse * scale) for scale in (31, 57, 83, 111)], dim=1)


def test_an_oracle_is_perfect_on_masks():
    result = evaluate(Oracle(), Figures())
    figures = result.figures
    assert figures["nmi"] > 90  # not 100: the squashed picture is smooth at the edges
    assert figures["ari"] > 95
    assert figures["foreground_iou"] > 90
    assert figures["parts_per_image"] == 3
    assert figures["images"] == 10
    assert figures["nme"] is None
    assert result.frequency == [100, 100, 100]
    assert result.contingency.targets == ["head", "body", "tail", "background"]
    assert result.contingency.parts == ["part-01", "part-02", "part-03", "background"]
    assert result.contingency.table.argmax(1).tolist() == [0, 1, 2, 3]


def test_an_oracle_is_perfect_on_keypoints():
    figures = evaluate(Oracle(), FiguresWithKeypoints(), fit_source=FiguresWithKeypoints(25)).figures
    assert figures["nmi"] == figures["ari"] == figures["foreground_nmi"] == figures["foreground_ari"] == 100
    assert figures["nme"] < 2


class EveryThird(FiguresWithKeypoints):
    """None but every third image may be asked for."""

    def annotation(self, index: int) -> Annotation:
        assert index % 3 == 0
        return super().annotation(index)


def test_the_regression_can_be_fitted_on_some_of_the_images():
    """On as many as asked for, at even distances; all else is as before."""
    some = evaluate(Noise(), FiguresWithKeypoints(), fit_source=EveryThird(24), fit_limit=8).figures
    every = evaluate(Noise(), FiguresWithKeypoints(), fit_source=FiguresWithKeypoints(24)).figures
    assert some["nme"] != every["nme"]
    assert {**some, "nme": None} == {**every, "nme": None}


def test_a_constant_tells_nothing():
    result = evaluate(Constant(), FiguresWithKeypoints(), fit_source=FiguresWithKeypoints(25))
    assert result.figures["nmi"] == result.figures["ari"] == 0
    assert result.figures["parts_per_image"] == 1
    assert result.frequency == [0, 100, 0]
    assert evaluate(Constant(), Figures()).figures["nmi"] == 0


def test_pooled_labels_of_the_protocol_give_the_same_figures():
    """All labels kept, argmax of interpolated logits, grid_sample at keypoints, scikit-learn at the end."""
    source, labels, parts, targets = FiguresWithKeypoints(12), [], [], []
    for index in range(len(source)):
        image = source[index].image.resize((64, 64), Image.Resampling.BILINEAR)
        logits = Noise().part_logits(torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255)
        large = F.interpolate(logits, (128, 128), mode="bilinear")
        annotation = source.annotation(index)
        points = torch.from_numpy(annotation.keypoints[annotation.visible] / source.size * 2 - 1).float()
        read = F.grid_sample(large, points.view(1, 1, -1, 2), mode="nearest", align_corners=False)
        labels += read[0, :, 0].argmax(0).tolist()
        parts += read[0, :-1, 0].argmax(0).tolist()
        targets += np.flatnonzero(annotation.visible).tolist()
    figures = evaluate(Noise(), source, batch_size=5).figures
    for prefix, predicted in (("", labels), ("foreground_", parts)):
        nmi, ari = normalized_mutual_info_score(targets, predicted), adjusted_rand_score(targets, predicted)
        assert figures[f"{prefix}nmi"] == pytest.approx(100 * nmi, abs=1e-9)
        assert figures[f"{prefix}ari"] == pytest.approx(100 * ari, abs=1e-9)


def test_keypoints_beyond_the_edge_have_label_0_as_in_the_released_program():
    class Corners(Figures):
        keypoint_names, part_names, has_foreground = ("near", "far", "beyond"), (), False

        def annotation(self, index: int) -> Annotation:
            points = np.array([[0.0, 0.0], self.size, [1e6, -1e6]])
            return Annotation(keypoints=points, visible=np.ones(3, dtype=bool))

    result = evaluate(Oracle(), Corners(4))
    # The frame is background; what lies on the far edge or beyond it reads zeros, of which the first is the largest.
    assert result.contingency.table.tolist() == [[0, 0, 0, 4], [4, 0, 0, 0], [4, 0, 0, 0]]
    assert result.figures["foreground_iou"] is None
    assert result.figures["nme"] is None  # neither a box nor eyes to divide by


@pytest.mark.parametrize("source", [Figures(7), FiguresWithKeypoints(7)], ids=["masks", "keypoints"])
def test_batches_and_workers_do_not_matter(source):
    one = evaluate(Noise(), source, fit_source=source, batch_size=1)
    many = evaluate(Noise(), source, fit_source=source, batch_size=4, workers=2)
    for name, value in one.figures.items():
        assert many.figures[name] == (None if value is None else pytest.approx(value, rel=1e-6)), name
    assert np.array_equal(many.contingency.table, one.contingency.table)
    assert [row["name"] for row in many.rows] == source.names


class Coarse(Oracle):
    """The oracle on a grid of 16 patches: its outlines miss the edges."""

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(super().part_logits(images), 4).clamp_min(-20)

    def describe(self, images: torch.Tensor) -> PartMaps:
        return PartMaps(self.part_logits(images), torch.zeros(len(images), PARTS + 1, 1))


def test_outlines_of_pixels_are_those_of_the_predicted_masks():
    source = FiguresWithKeypoints(11)
    patch, pixel = (evaluate(Coarse(), source, fit_source=source, outline=outline) for outline in ("patch", "pixel"))
    assert pixel.figures["foreground_iou"] > patch.figures["foreground_iou"] + 2
    assert pixel.figures["nme"] != patch.figures["nme"]
    assert pixel.figures["nmi"] > 90
    for row, parts in zip(pixel.rows, PartPredictor(Coarse(), outline="pixel").predict(source), strict=True):
        truth = source.annotation(row["number"]).foreground
        iou = foreground_iou(torch.from_numpy(parts.mask > 0), torch.from_numpy(truth))
        assert row["foreground_iou"] == pytest.approx(100 * iou)
    some = evaluate(Coarse(), source, fit_source=source, outline="pixel", batch_size=3, workers=1)
    assert some.figures == pixel.figures


def test_joined_parts_are_counted_as_one():
    source = FiguresWithKeypoints(6)
    every, two = (evaluate(Coarse(), source, fit_source=source, part_of=part_of) for part_of in (None, [0, 1, 0]))
    table = every.contingency.table
    expected = np.stack([table[:, 0] + table[:, 2], table[:, 1], table[:, 3]], axis=1)
    assert np.array_equal(two.contingency.table, expected)
    assert two.figures["foreground_iou"] == every.figures["foreground_iou"]
    assert two.figures["nme"] > every.figures["nme"]
    assert len(two.frequency) == 2


def test_an_unknown_outline_is_a_plain_error():
    with pytest.raises(MPAEError, match="Unknown outline 'fine'; choose one of: pixel, patch"):
        evaluate(Oracle(), Figures(3), outline="fine")


def test_unreadable_images_are_skipped_and_named():
    result = evaluate(Oracle(), Figures(10, broken=(0, 7)), batch_size=1)
    assert result.skipped == [("000.png", "the file is empty"), ("007.png", "the file is empty")]
    assert result.figures["images"] == 8
    assert "007.png" not in [row["name"] for row in result.rows]


def test_no_readable_image_is_a_plain_error():
    with pytest.raises(MPAEError, match="None of the images can be read; the first: the file is empty"):
        evaluate(Oracle(), Figures(3, broken=(0, 1, 2)))


@pytest.mark.parametrize("workers", [0, 1])
def test_mistakes_in_the_annotation_keep_their_sentence(workers):
    class Wrong(Figures):
        def annotation(self, index: int) -> Annotation:
            raise MPAEError("'masks/000.png' has 3 x 3 pixels.")

    with pytest.raises(MPAEError, match=r"^'masks/000.png' has 3 x 3 pixels.$"):
        evaluate(Oracle(), Wrong(3), workers=workers)


def test_limit_takes_images_from_the_whole_split():
    result = evaluate(Oracle(), Figures(10), limit=3)
    assert [row["name"] for row in result.rows] == ["000.png", "003.png", "006.png"]
    assert evaluate(Oracle(), Figures(2), limit=3).figures["images"] == 2


def test_progress_counts_images_of_both_passes():
    seen = []
    evaluate(Oracle(), FiguresWithKeypoints(5), fit_source=FiguresWithKeypoints(3), batch_size=2,
             progress=lambda *state: seen.append(state))
    assert seen == [("evaluate", 0, 5), ("evaluate", 2, 5), ("evaluate", 4, 5), ("evaluate", 5, 5),
                    ("fit keypoints", 0, 3), ("fit keypoints", 2, 3), ("fit keypoints", 3, 3)]


def test_rows_and_json(tmp_path):
    result = evaluate(Oracle(), FiguresWithKeypoints(4), fit_source=FiguresWithKeypoints(25))
    result.write_rows(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    assert [row["name"] for row in rows] == ["000.png", "001.png", "002.png", "003.png"]
    expected = {"parts": "1 2 3", "keypoints": "3", "keypoints_on_background": "0", "nmi": "", "touches_border": "0"}
    assert expected.items() <= rows[0].items()
    share = 100 * (FiguresWithKeypoints(4).labels(0) != PARTS).mean()
    assert float(rows[0]["object_share"]) == pytest.approx(share, abs=1e-3)
    assert np.mean([float(row["nme"]) for row in rows]) == pytest.approx(result.figures["nme"], abs=1e-3)
    assert np.mean([float(row["foreground_iou"]) for row in rows]) == pytest.approx(
        result.figures["foreground_iou"], abs=1e-3)
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {"nmi", "ari", "foreground_nmi", "foreground_ari", "nme", "foreground_iou", "parts_per_image",
            "images"} <= plain.keys()
    assert plain["contingency"]["table"] == result.contingency.table.tolist()


def test_the_global_random_state_is_left_alone():
    before = torch.random.get_rng_state()
    evaluate(Oracle(), Figures(3))
    assert torch.equal(before, torch.random.get_rng_state())


def test_memory_does_not_grow_with_the_number_of_images():
    def peak(count: int) -> int:
        tracemalloc.start()
        evaluate(Constant(), Figures(count), batch_size=4)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(8)
    assert peak(120) - peak(20) < 100 * 3_000  # a row and a few numbers an image; a picture has 18 kB


def share(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)  # a forked process has no pool of threads
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    source = FiguresWithKeypoints(7, broken=(2,))
    result = evaluate(Noise(), source, fit_source=FiguresWithKeypoints(9), batch_size=1)
    torch.save({"figures": result.figures, "table": torch.from_numpy(result.contingency.table),
                "frequency": result.frequency, "rows": len(result.rows), "skipped": result.skipped},
               f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_equal_one_exactly(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(share, args=(port, str(tmp_path)), nprocs=2, start_method="fork")
    source = FiguresWithKeypoints(7, broken=(2,))
    one = evaluate(Noise(), source, fit_source=FiguresWithKeypoints(9), batch_size=1)
    for rank in range(2):
        result = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert result["figures"] == one.figures
        assert np.array_equal(result["table"].numpy(), one.contingency.table)
        assert result["frequency"] == one.frequency
        assert result["rows"] == 6
        assert result["skipped"] == [("002.png", "the file is empty")]


class Recorder(torch.nn.Module):
    """Says where it was asked to run."""

    num_parts, image_size = PARTS, 64

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.moved: list[str] = []

    def to(self, device):
        self.moved.append(str(device))
        return super().to(device)

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        assert images.device == self.weight.device
        return torch.zeros(len(images), PARTS + 1, 4, 4) + self.weight


def test_the_model_is_moved_to_the_device_that_was_asked_for():
    model = Recorder()
    evaluate(model, Figures(3))
    assert model.moved == []  # it stays where it is
    evaluate(model, Figures(3), device="cpu")
    assert model.moved == ["cpu"]


def test_a_line_in_the_registry_is_all_that_a_metric_needs(monkeypatch):
    class LargestPart(EvaluationMetric):
        columns = ("largest_part",)

        def __init__(self, task: Task) -> None:
            super().__init__(task)
            self.add_state("largest", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")

        def update(self, found: FoundParts) -> None:
            for sample, labels in zip(found.samples, found.labels, strict=True):
                size = int(torch.bincount(labels.flatten(), minlength=PARTS + 1)[:-1].max())
                self.rows[sample.index] = (size,)
                self.largest = torch.maximum(self.largest, torch.tensor(size))

        def compute(self) -> dict[str, float | None]:
            return {"largest_part": float(self.largest)}

    figure = EvaluationFigure("largest_part", "largest part", LargestPart, "nothing", higher_is_better=None, unit="px")
    before = evaluate(Oracle(), Figures(4)).figures
    for module in ("mpae.metrics.registry", "mpae.evaluation.evaluate"):
        monkeypatch.setattr(f"{module}.FIGURES", (*FIGURES, figure))
    result = evaluate(Oracle(), Figures(4))
    assert result.figures["largest_part"] == max(row["largest_part"] for row in result.rows) > 500
    assert before.items() <= result.figures.items()  # all others stay as they are
