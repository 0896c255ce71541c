"""What the catalogue knows of a dataset; each dataset's own file has its entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpae.config import DataSettings
from mpae.data.benchmarks.tables import Tree
from mpae.data.source import AnnotatedSource
from mpae.errors import MPAEError


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


def root_of(settings: DataSettings) -> str:
    if settings.root is None:
        raise MPAEError(f"Dataset '{settings.dataset}' needs --root DIR, the folder that holds it; "
                        f"`mpae datasets` shows what is expected there.")
    return settings.root
