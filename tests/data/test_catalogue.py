"""Datasets by name: what training is given, what evaluation is given, and what is said of the rest."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from miniatures import write_celeba, write_cub, write_partimagenet_ood, write_partimagenet_seg, write_pets
from PIL import Image

from mpae.config import DataSettings
from mpae.data.catalogue import describe_datasets, find_dataset, open_annotated, open_images
from mpae.errors import MPAEError

WRITERS = {"pets": write_pets, "cub": write_cub, "celeba": write_celeba, "partimagenet-ood": write_partimagenet_ood,
           "partimagenet-seg": write_partimagenet_seg}


@pytest.fixture(params=[*WRITERS, "synthetic", "folder"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> DataSettings:
    """Settings for each dataset, the downloaded ones as miniature copies."""
    name, root = request.param, tmp_path / "data"
    if name in WRITERS:
        WRITERS[name](root)
    elif name == "folder":
        root.mkdir()
        for number in range(8):
            Image.new("RGB", (30, 20), (number * 20, 0, 0)).save(root / f"{number}.png")
    return DataSettings(dataset=name, root=None if name == "synthetic" else str(root), validation=0.3,
                        synthetic_images=10)


def reachable(thing: object, depth: int = 4) -> list[object]:
    """What hangs on an object by its attributes."""
    inner = list(getattr(thing, "__dict__", {}).values())
    return inner + [leaf for part in inner for leaf in reachable(part, depth - 1)] if depth else inner


def test_training_gets_pictures_and_no_annotation(dataset: DataSettings) -> None:
    images = open_images(dataset)
    assert len(images) == len(images.names) > 0
    assert images[0].name == images.names[0]
    assert not hasattr(images, "annotation")
    if dataset.dataset in WRITERS:
        assert not any(hasattr(part, "annotation") for part in reachable(images))
    assert [picture.digest for picture in (pickle.loads(pickle.dumps(images))[0],)] == [images[0].digest]


def test_validation_is_set_aside_from_training(dataset: DataSettings) -> None:
    train, validation = open_images(dataset, "train"), open_images(dataset, "validation")
    everything = open_images(dataset.model_copy(update={"validation": 0.0}))
    assert sorted([*train.names, *validation.names]) == sorted(everything.names)
    assert len(validation) == round(0.3 * len(everything))
    assert validation[0].name == validation.names[0]


def test_evaluation_gets_the_annotation_of_the_same_validation_images(dataset: DataSettings) -> None:
    if dataset.dataset == "folder":
        with pytest.raises(MPAEError, match=r"'folder' has no annotation to evaluate against; choose"):
            open_annotated(dataset, "validation")
        return
    source = open_annotated(dataset, "validation")
    assert list(source.names) == list(open_images(dataset, "validation").names)
    whole = open_annotated(dataset, "train")
    original = whole.annotation(list(whole.names).index(source.names[-1]))
    same = source.annotation(len(source) - 1)
    for field in ("keypoints", "visible", "box", "part_mask", "foreground", "uncertain"):
        np.testing.assert_equal(getattr(same, field), getattr(original, field))
    assert (source.keypoint_names, source.part_names) == (whole.keypoint_names, whole.part_names)
    assert source[0].name == source.names[0]


def test_each_evaluation_can_be_opened(dataset: DataSettings) -> None:
    entry = find_dataset(dataset.dataset)
    for split in entry.sizes if entry.open else ():
        source = open_annotated(dataset, split)
        annotation, size = source.annotation(0), source[0].image.size
        assert source.keypoint_names or source.part_names or source.has_foreground
        if source.has_foreground:
            assert annotation.foreground.shape == size[::-1]
        if source.part_names:
            assert annotation.part_mask.max() <= len(source.part_names)
        if entry.fit_split:
            assert len(annotation.keypoints) == len(annotation.visible) == len(source.keypoint_names)
            assert annotation.box[2] > 0
    assert entry.fit_split is None or entry.fit_split in entry.sizes


def test_training_cannot_open_test() -> None:
    with pytest.raises(ValueError, match="split is 'test'; training opens 'train' or 'validation'"):
        open_images(DataSettings(dataset="synthetic"), "test")


def test_what_is_missing_is_said() -> None:
    with pytest.raises(MPAEError, match=r"^Dataset 'cub' needs --root DIR, the folder that holds it"):
        open_images(DataSettings(dataset="cub"))
    with pytest.raises(MPAEError, match=r"^No training images are set aside for validation; set data."):
        open_annotated(DataSettings(dataset="synthetic"), "validation")
    with pytest.raises(MPAEError, match=r"^Unknown dataset 'cubs'; did you mean 'cub'\? All: folder, "):
        open_annotated(DataSettings(dataset="cubs"))
    with pytest.raises(MPAEError, match=r"^Unknown dataset 'zzz'; choose one of: folder, synthetic, "):
        open_images(DataSettings(dataset="zzz"))
    with pytest.raises(MPAEError, match=r"^synthetic has no split 'val'; choose one of: train, test"):
        open_annotated(DataSettings(dataset="synthetic"), "val")


def test_every_dataset_is_described() -> None:
    names = [entry.name for entry in describe_datasets()]
    assert names == ["folder", "synthetic", "pets", "cub", "celeba", "partimagenet-ood", "partimagenet-seg"]
    for entry in describe_datasets():
        assert all((entry.description, entry.annotation, entry.origin, entry.licence, entry.sizes))
        assert entry.tree or entry.name == "synthetic"
    assert find_dataset("cub").sizes == {"train": "5,994", "test": "5,794"}
