"""The datasets by name, and how to open them; each one's own file says what it is."""

from __future__ import annotations

import difflib

from mpae.config import DataSettings
from mpae.data.benchmarks import celeba, cub, partimagenet, pets
from mpae.data.dataset import Dataset, root_of
from mpae.data.source import AnnotatedSource, ImageSource
from mpae.data.sources import folder, synthetic
from mpae.data.sources.subsets import AnnotatedSubset, Pictures, divide
from mpae.errors import MPAEError

DATASETS = {entry.name: entry for entry in (
    folder.DATASET,
    synthetic.DATASET,
    pets.DATASET,
    cub.DATASET,
    celeba.DATASET,
    partimagenet.OOD,
    partimagenet.SEG,
)}


def describe_datasets() -> list[Dataset]:
    """All datasets, in the order in which they are listed."""
    return list(DATASETS.values())


def find_dataset(name: str) -> Dataset:
    """A dataset by its name; an unknown name is answered with the nearest one."""
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
    hint = f"did you mean '{near[0]}'? All: " if near else "choose one of: "
    raise MPAEError(f"Unknown dataset '{name}'; {hint}{', '.join(DATASETS)}.")


def open_images(settings: DataSettings, split: str = "train") -> ImageSource:
    """Pictures for training, without annotation.

    ``train`` is the training split but for the share that ``settings.validation`` sets aside; ``validation``
    is that share. Nothing else can be opened for training.
    """
    if split not in ("train", "validation"):
        raise ValueError(f"split is {split!r}; training opens 'train' or 'validation'")
    entry = find_dataset(settings.dataset)
    source = folder.FolderImages(root_of(settings)) if entry.open is None else entry.open(settings, "train")
    kept, held = divide(len(source), _share(settings, split))
    return Pictures(source, kept if split == "train" else held)


def open_annotated(settings: DataSettings, split: str = "test") -> AnnotatedSource:
    """Pictures with annotation for evaluation; ``validation`` is the share set aside from training."""
    entry = find_dataset(settings.dataset)
    if entry.open is None:
        annotated = ", ".join(name for name, other in DATASETS.items() if other.open)
        raise MPAEError(f"Dataset '{entry.name}' has no annotation to evaluate against; choose one of: "
                        f"{annotated}.")
    if split != "validation":
        return entry.open(settings, split)
    source = entry.open(settings, "train")
    return AnnotatedSubset(source, divide(len(source), _share(settings, split))[1])


def _share(settings: DataSettings, split: str) -> float:
    if split == "validation" and not settings.validation:
        raise MPAEError("No training images are set aside for validation; set data.validation, for example "
                        "to 0.1.")
    return settings.validation
