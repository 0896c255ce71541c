"""Search by part against a plain loop, and the tables of a prediction folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_run import make_tiny_run

from mpae.data.sources.folder import FolderImages
from mpae.errors import MPAEError
from mpae.model.load import load_model
from mpae.prediction.features import part_features
from mpae.prediction.predictor import PartPredictor, predict_folder
from mpae.prediction.search import PartIndex
from mpae.prediction.table import Predictions


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("parts", [[1], [2, 4]])
def test_finds_what_a_loop_finds(parts: list[int]) -> None:
    random = np.random.default_rng(0)
    features, present = random.normal(size=(50, 4, 7)).astype(np.float16), random.random((50, 4)) < 0.6
    query = random.normal(size=7)

    def differs(vector: np.ndarray, part: int) -> np.ndarray:
        """A vector's difference from the part's mean over all images with it, in standard deviations."""
        units = [features[image, part - 1].astype(float) for image in range(50) if present[image, part - 1]]
        units = [unit / np.linalg.norm(unit) for unit in units]
        return (vector / np.linalg.norm(vector) - np.mean(units, axis=0)) / np.std(units, axis=0)

    expected = {}
    for image in range(50):
        there = [cosine(differs(query, parts[0]), differs(features[image, part - 1].astype(float), part))
                 for part in parts if present[image, part - 1]]
        if there and image != 3:
            expected[image] = max(there)
    best = sorted(expected, key=lambda image: -expected[image])[:12]
    found = PartIndex(features, present).search(query, parts[0], parts, top=12, leave_out=3)
    assert [match.image for match in found] == best
    assert [match.similarity for match in found] == pytest.approx([expected[image] for image in best], abs=1e-3)
    assert all(present[match.image, match.part - 1] and match.part in parts for match in found)


def test_what_all_images_have_in_common_says_nothing() -> None:
    """Two kinds of heads that differ in features which are small beside what every head has."""
    random = np.random.default_rng(2)
    features = np.tile([40.0, 30, 0, 0, 0], (40, 1, 1)) + random.normal(size=(40, 1, 5)) * [9, 9, 0.1, 0.1, 0.1]
    features[::2, :, 2:] += [1, -1, 1]
    index = PartIndex(features, np.ones((40, 1), dtype=bool))
    found = [match.image % 2 for match in index.search(index.vector(0, 1), 1, top=10, leave_out=0)]
    assert sum(found) <= 1


def test_a_part_is_most_like_itself() -> None:
    random = np.random.default_rng(1)
    for images in (30, 2):  # too few to know what is usual: compared as they are
        index = PartIndex(random.normal(size=(images, 2, 5)), np.ones((images, 2), dtype=bool))
        match = index.search(index.vector(1, 2), 2, top=1)[0]
        assert (match.image, match.similarity) == (1, pytest.approx(1))


def test_asks_for_no_more_than_there_is() -> None:
    index = PartIndex(np.ones((3, 2, 5)), np.array([[True, False], [False, False], [True, False]]))
    assert [match.image for match in index.search(np.ones(5), 1, [1, 2], top=20)] == [0, 2]
    assert index.search(np.ones(5), 2, top=20) == []
    with pytest.raises(MPAEError, match="does not show"):
        index.vector(1, 1)
    for bad in (np.ones(4), np.full(5, np.nan), np.ones((5, 1))):
        with pytest.raises(MPAEError, match="finite numbers"):
            index.search(bad, 1)


def test_features_are_the_mean_under_the_part() -> None:
    similarity = torch.tensor([[[[1.0, 0.0], [0.5, 0.0]]]])  # (1, 1, 2, 2)
    frozen = torch.tensor([[[[3.0, 7.0], [6.0, 9.0]], [[0.0, 1.0], [3.0, 1.0]]]])  # (1, 2, 2, 2)
    assert torch.allclose(part_features(similarity, frozen), torch.tensor([[[4.0, 1.0]]]))


@pytest.fixture
def predictions(tmp_path: Path, photos: Path) -> Path:
    run = make_tiny_run(tmp_path / "run")
    predict_folder(load_model(run.folder), FolderImages(photos), tmp_path / "out", run=run.weights_digest(),
                   origin=str(photos), run_folder=str(run.folder), write=["masks", "parts", "features"])
    return tmp_path / "out"


def test_the_folder_holds_what_the_predictor_says(predictions: Path, photos: Path, tmp_path: Path) -> None:
    found = Predictions(predictions)
    source = FolderImages(photos)
    expected = list(PartPredictor(load_model(tmp_path / "run")).predict([source[i] for i in range(len(source))]))
    assert list(found.table.names) == list(source.names)
    assert found.run_folder == str(tmp_path / "run")
    features = found.features()
    for row, parts in enumerate(expected):
        assert np.allclose(features[row], parts.features, atol=2e-2)
        shares = {part.index: part.share for part in parts.present}
        assert [shares.get(k, 0) for k in (1, 2, 3)] == pytest.approx(found.table.share[row].tolist(), abs=1e-5)


def test_damaged_tables_get_a_sentence(predictions: Path) -> None:
    features = np.load(predictions / "features.npy")
    np.save(predictions / "features.npy", features[:5])
    with pytest.raises(MPAEError, match="does not fit"):
        Predictions(predictions).features()
    (predictions / "features.npy").write_bytes(b"no array")
    with pytest.raises(MPAEError, match="damaged"):
        Predictions(predictions).features()
    (predictions / "features.npy").unlink()
    with pytest.raises(MPAEError, match="predict again"):
        Predictions(predictions).features()
    (predictions / "parts.jsonl").write_text('{"name": 3}\n')
    with pytest.raises(MPAEError, match="damaged"):
        Predictions(predictions)
    (predictions / "parts.jsonl").unlink()
    with pytest.raises(MPAEError, match="unfinished"):
        Predictions(predictions)
    (predictions / "predictions.json").write_text("{}")
    with pytest.raises(MPAEError, match="holds no predictions"):
        Predictions(predictions)
    with pytest.raises(MPAEError, match="No folder"):
        Predictions(predictions / "none")
