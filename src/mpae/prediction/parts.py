"""What prediction returns: the parts of one image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpae.drawing.palette import part_name
from mpae.prediction.part_names import PartNames


@dataclass(frozen=True)
class Part:
    """One part that is present in an image, measured in pixels of that image."""

    index: int  # 1..K, its value in the mask
    area: int  # pixels
    share: float  # of the image's pixels
    centre: tuple[float, float]  # x, y; the centre of the top left pixel is (0.5, 0.5)
    box: tuple[int, int, int, int]  # x, y, width, height
    confidence: float  # mean probability of the part over its own pixels
    given_name: str = ""  # by people, in parts.yaml of the run

    @property
    def name(self) -> str:
        return self.given_name or part_name(self.index)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"index": self.index, "name": self.name, "area": self.area, "share": round(self.share, 6),
                "centre": [round(value, 2) for value in self.centre], "box": list(self.box),
                "confidence": round(self.confidence, 4)}


@dataclass(frozen=True)
class Parts:
    """The parts of one image.

    >>> mask = np.array([[0, 2], [2, 2]], dtype=np.uint8)
    >>> part = Part(index=2, area=3, share=0.75, centre=(1.17, 1.17), box=(0, 0, 2, 2), confidence=0.9)
    >>> parts = Parts("heron.jpg", mask, [part], descriptors=np.zeros((3, 4), dtype=np.float32))
    >>> parts.size, parts.num_parts, [part.name for part in parts.present]
    ((2, 2), 3, ['part-02'])
    """

    name: str
    mask: np.ndarray = field(repr=False)  # (H, W) uint8 at the image's own size: 0 background, 1..K parts
    present: list[Part]  # in the order of their index
    descriptors: np.ndarray = field(repr=False)  # (K, C) float32
    probabilities: np.ndarray | None = field(default=None, repr=False)  # (K+1, H, W), background last
    features: np.ndarray | None = field(default=None, repr=False)  # (K, E): frozen features under each part
    names: PartNames | None = field(default=None, repr=False)  # that people gave the parts

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, as Pillow has them."""
        return self.mask.shape[1], self.mask.shape[0]

    @property
    def num_parts(self) -> int:
        return len(self.descriptors)

    def __getitem__(self, part: str | int) -> np.ndarray:
        """Where a part is, by its name or number: (H, W) bool; nowhere, where the image does not show it.

        >>> mask = np.array([[0, 2], [1, 2]], dtype=np.uint8)
        >>> names = PartNames(3).rename(2, "head")
        >>> Parts("heron.jpg", mask, [], np.zeros((3, 4)), names=names)["head"].tolist()
        [[False, True], [False, True]]
        """
        return np.isin(self.mask, (self.names or PartNames(self.num_parts)).find(part).members)
