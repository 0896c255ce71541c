"""The datasets by name: what each is, where it comes from, and how to open it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpae.config import DataSettings
from mpae.data.benchmarks import celeba, cub, partimagenet
from mpae.data.benchmarks.tables import Tree, check_split
from mpae.data.source import AnnotatedSource, ImageSource
from mpae.data.sources.folder import FolderImages
from mpae.data.sources.subsets import AnnotatedSubset, Pictures, divide
from mpae.errors import MPAEError

SYNTHETIC_TEST_IMAGES = 200


@dataclass(frozen=True)
class Dataset:
    name: str
    description: str
    annotation: str  # what an evaluation can be made against
    tree: Tree  # below --root
    origin: str  # where to get it
    licence: str
    sizes: Mapping[str, str]  # images of each split
    open: Callable[[DataSettings, str], AnnotatedSource] | None  # settings, split; None without annotation
    fit_split: str | None = None  # on which the keypoint regression of the NME is fitted


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
    source = FolderImages(_root(settings)) if entry.open is None else entry.open(settings, "train")
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


def _root(settings: DataSettings) -> str:
    if settings.root is None:
        raise MPAEError(f"Dataset '{settings.dataset}' needs --root DIR, the folder that holds it; "
                        f"`mpae datasets` shows what is expected there.")
    return settings.root


def _open_synthetic(settings: DataSettings, split: str) -> AnnotatedSource:
    from mpae.data.sources.synthetic import SyntheticImages

    check_split(split, ("train", "test"), "synthetic")
    count = settings.synthetic_images if split == "train" else SYNTHETIC_TEST_IMAGES
    return SyntheticImages(count, split=split)


_IMAGENET = "images: ImageNet's terms, non-commercial research; annotations: none stated"
_PARTIMAGENET = "github.com/TACJu/PartImageNet"

DATASETS = {entry.name: entry for entry in (
    Dataset(
        name="folder",
        description="your own photos, sub-folders included",
        annotation="none",
        tree={"**/*.jpg": "photos; also .jpeg .png .webp .bmp .tif .tiff"},
        origin="yours",
        licence="yours",
        sizes={"train": "all images"},
        open=None,
    ),
    Dataset(
        name="synthetic",
        description="animals and vehicles that mpae draws itself, nothing to download",
        annotation="part masks, keypoints, boxes, foreground masks",
        tree={},
        origin="drawn by mpae",
        licence="as mpae",
        sizes={"train": "data.synthetic_images", "test": str(SYNTHETIC_TEST_IMAGES)},
        open=_open_synthetic,
        fit_split="train",
    ),
    Dataset(
        name="cub",
        description="Caltech-UCSD Birds-200-2011, 200 kinds of birds",
        annotation="15 keypoints, boxes, foreground masks",
        tree=cub.TREE,
        origin="www.vision.caltech.edu/datasets/cub_200_2011",
        licence="images belong to their photographers; non-commercial research and education",
        sizes={"train": "5,994", "test": "5,794"},
        open=lambda settings, split: cub.CubImages(_root(settings), split),
        fit_split="train",
    ),
    Dataset(
        name="celeba",
        description="CelebA in the wild, faces that cover 30 % of the image or more",
        annotation="5 landmarks, boxes",
        tree=celeba.TREE,
        origin="mmlab.ie.cuhk.edu.hk/projects/CelebA.html; "
               "the MAFL lists: github.com/zhzhanp/TCDCN-face-alignment",
        licence="non-commercial research only",
        sizes={"train": "45,609", "fit": "5,379 (MAFL training)", "test": "283 (MAFL test)"},
        open=lambda settings, split: celeba.CelebaImages(_root(settings), split),
        fit_split="fit",
    ),
    Dataset(
        name="partimagenet-ood",
        description="PartImageNet, 109 classes of the original archive, divided as in PDiscoFormer and MPAE",
        annotation="masks of 40 parts",
        tree=partimagenet.TREES["ood"],
        origin=f"{_PARTIMAGENET}; split file: github.com/ananthu-aniraj/pdiscoformer, data_sets/",
        licence=_IMAGENET,
        sizes={"train": "14,865", "test": "1,658"},
        open=lambda settings, split: partimagenet.PartImageNetImages(_root(settings), split, "ood"),
    ),
    Dataset(
        name="partimagenet-seg",
        description="PartImageNet, 158 classes, the release for segmentation",
        annotation="masks of 40 parts",
        tree=partimagenet.TREES["seg"],
        origin=_PARTIMAGENET,
        licence=_IMAGENET,
        sizes={"train": "20,457", "val": "about 1,200", "test": "2,405"},
        open=lambda settings, split: partimagenet.PartImageNetImages(_root(settings), split, "seg"),
    ),
)}
