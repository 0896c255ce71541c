"""Pictures that the program draws itself, with exact part masks and keypoints."""

from mpae.data.sources.synthetic.source import DATASET, SyntheticImages, drawn_images

__all__ = ["DATASET", "SyntheticImages", "drawn_images"]
