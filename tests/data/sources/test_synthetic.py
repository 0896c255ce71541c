"""Drawn pictures: reproducible, annotated exactly, and with parts that kinds share."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from mpae.data.sources.synthetic import SyntheticImages
from mpae.data.sources.synthetic.anatomy import BACKGROUND, KEYPOINT_PARTS, LEG, TORSO, Piece
from mpae.data.sources.synthetic.canvas import Canvas
from mpae.data.sources.synthetic.drawing import draw
from mpae.data.sources.synthetic.shapes import Frame, ellipse
from mpae.data.sources.synthetic.textures import Material
from mpae.errors import MPAEError

SIZE = 96
COUNT = 40


@pytest.fixture(scope="module")
def source() -> SyntheticImages:
    return SyntheticImages(COUNT, seed=3, size=SIZE)


@pytest.fixture(scope="module")
def annotations(source):
    return [source.annotation(index) for index in range(COUNT)]


def pixels(source: SyntheticImages, index: int) -> np.ndarray:
    return np.asarray(source[index].image)


def test_same_seed_same_pixels_in_any_order(source):
    forward = [pixels(source, index) for index in range(6)]
    draw.cache_clear()
    fresh = SyntheticImages(6, seed=3, size=SIZE)
    backward = [pixels(fresh, index) for index in reversed(range(6))][::-1]
    for one, other in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(forward[0], forward[1])


def test_another_process_draws_the_same(source):
    code = (
        "import hashlib\n"
        "from mpae.data.sources.synthetic import SyntheticImages\n"
        f"source = SyntheticImages(9, seed=3, size={SIZE})\n"
        "drawn = source[7].image.tobytes() + source.annotation(7).part_mask.tobytes()\n"
        "print(hashlib.sha256(drawn).hexdigest())\n"
    )
    here = source[7].image.tobytes() + source.annotation(7).part_mask.tobytes()
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there.strip() == hashlib.sha256(here).hexdigest()


def test_seed_and_split_change_every_picture(source):
    other_seed = SyntheticImages(8, seed=4, size=SIZE)
    test_split = SyntheticImages(8, seed=3, size=SIZE, split="test")
    train = {source[index].image.tobytes() for index in range(8)}
    for other in (other_seed, test_split):
        assert train.isdisjoint(other[index].image.tobytes() for index in range(8))
    digests = {images[index].digest for images in (source, other_seed, test_split) for index in range(4)}
    assert len(digests) == 3 * 4


def test_count_does_not_change_a_picture(source):
    np.testing.assert_array_equal(pixels(SyntheticImages(3, seed=3, size=SIZE), 2), pixels(source, 2))


def test_names_tell_split_number_and_kind(source):
    assert len(source) == len(set(source.names)) == COUNT
    for index, name in enumerate(source.names):
        assert name == f"train/{index:06d}-{source.kinds[source.kind(index)]}"
    assert source[5].name == source.names[5]


def test_each_kind_occurs_equally_often(source):
    assert len(source.kinds) >= 4
    counts = np.bincount([source.kind(index) for index in range(COUNT)])
    assert counts.tolist() == [COUNT // len(source.kinds)] * len(source.kinds)


def test_masks_fit_the_picture(source, annotations):
    background = len(source.part_names)
    picture = source[0].image
    assert (picture.mode, picture.size) == ("RGB", (SIZE, SIZE))
    for annotation in annotations:
        assert annotation.part_mask.shape == annotation.foreground.shape == (SIZE, SIZE)
        assert annotation.part_mask.dtype == np.uint8
        assert annotation.part_mask.max() == background
        np.testing.assert_array_equal(annotation.foreground, annotation.part_mask != background)


def test_box_is_that_of_the_foreground(annotations):
    for annotation in annotations:
        left, top, width, height = (round(value) for value in annotation.box)
        inside = annotation.foreground[top : top + height, left : left + width]
        assert inside.sum() == annotation.foreground.sum()
        edges = (inside[0], inside[-1], inside[:, 0], inside[:, -1])
        assert all(edge.any() for edge in edges)


def test_figures_are_large_and_mostly_clear_of_the_border(annotations):
    share = np.array([annotation.foreground.mean() for annotation in annotations])
    assert 0.15 < share.mean() < 0.5
    at_border = [a.foreground[[0, -1]].any() or a.foreground[:, [0, -1]].any() for a in annotations]
    assert np.mean(at_border) < 0.1


def test_kinds_share_labels_and_every_label_occurs(source, annotations):
    parts: dict[str, set[str]] = {kind: set() for kind in source.kinds}
    names = (*source.part_names, "background")
    for index, annotation in enumerate(annotations):
        parts[source.kinds[source.kind(index)]] |= {names[label] for label in np.unique(annotation.part_mask)}
    animals = parts["quadruped"] & parts["bird"] & parts["fish"]
    assert animals == {"head", "torso", "tail", "background"}
    assert "leg" in parts["quadruped"] & parts["bird"]
    assert parts["vehicle"] == {"bodywork", "window", "wheel", "background"}
    assert set().union(*parts.values()) == set(names)


def test_a_visible_keypoint_lies_on_its_part(source, annotations):
    part_of = list(KEYPOINT_PARTS.values())
    assert list(source.keypoint_names) == list(KEYPOINT_PARTS)
    seen = np.zeros(len(part_of), int)
    for annotation in annotations:
        assert annotation.keypoints.shape == (len(part_of), 2)
        for point in np.flatnonzero(annotation.visible):
            x, y = annotation.keypoints[point]
            assert annotation.part_mask[int(y), int(x)] == part_of[point]
        seen += annotation.visible
    assert (seen > 0).all()


def test_keypoints_are_hidden_only_by_occluders(source, annotations, monkeypatch):
    """Some points that a kind has are hidden; with the occluders away, nearly none is."""
    present = np.array([annotation.keypoints.any(1) for annotation in annotations])
    visible = np.array([annotation.visible for annotation in annotations])
    assert not (visible & ~present).any()
    hidden = (present & ~visible).sum() / present.sum()
    assert 0.03 < hidden < 0.3
    draw.cache_clear()
    for obstacle in ("occlude", "grass"):
        monkeypatch.setattr(f"mpae.data.sources.synthetic.drawing.{obstacle}", lambda *_: None)
    clear = np.array([source.annotation(index).visible for index in range(COUNT)])
    draw.cache_clear()
    assert (clear | ~present).mean() > 0.99
    assert clear.sum() > visible.sum()


def test_colours_and_facing_vary_within_a_kind(source, annotations):
    """No part can be told by its colour alone, nor by its side of the picture."""
    eye, tail = (list(source.keypoint_names).index(name) for name in ("eye", "tail"))
    faces_right, torsos = [], []
    for index, annotation in enumerate(annotations):
        points = annotation.keypoints
        if points[eye].any():
            faces_right.append(points[eye, 0] > points[tail, 0])
            torsos.append(pixels(source, index)[annotation.part_mask == 1].mean(0))
    assert 0.2 < np.mean(faces_right) < 0.8
    assert np.std(torsos, axis=0).min() > 20


@pytest.mark.parametrize("size", [32, 97, 256])
def test_any_size(size):
    source = SyntheticImages(4, size=size)
    for index in range(4):
        assert source[index].image.size == (size, size)
        assert source.annotation(index).foreground.mean() > 0.03


def test_annotations_are_the_callers_own(source):
    mask = source.annotation(0).part_mask
    before = mask.copy()
    mask[:] = 0
    np.testing.assert_array_equal(source.annotation(0).part_mask, before)


def test_the_mask_follows_the_paint():
    canvas = Canvas(np.zeros((3, 40, 40)))
    red, green, blue = (Material(tuple(float(channel == k) for channel in range(3))) for k in range(3))
    lower, upper, occluder = (ellipse((x, 20.3), 9.4, 7.1) for x in (12.2, 20.7, 30.1))
    canvas.paint(Piece((lower,), LEG, red, relief=0.0), Frame())
    canvas.paint(Piece((upper,), TORSO, green, relief=0.0), Frame())
    canvas.paint(Piece((occluder,), BACKGROUND, blue, relief=0.0), Frame())
    paint = canvas.picture.argmax(0)
    shown = canvas.picture.max(0) > 0.51  # what is clearly of one colour
    for label, colour in ((LEG, 0), (TORSO, 1)):
        np.testing.assert_array_equal(canvas.labels[shown] == label, paint[shown] == colour)
        assert (canvas.labels == label).sum() > 60
    assert (canvas.labels[canvas.picture[2] > 0.51] == BACKGROUND).all()


def test_indices_outside_end_iteration(source):
    assert len(list(SyntheticImages(2, size=32))) == 2
    assert source[-1].name == source.names[-1]
    with pytest.raises(IndexError):
        source.annotation(COUNT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 4, "split": "validation"}, "Unknown split 'validation'"),
        ({"count": 0}, "ask for at least 1"),
        ({"count": 4, "size": 16}, "use 32 or more"),
    ],
)
def test_mistakes_get_a_sentence(arguments, message):
    with pytest.raises(MPAEError, match=message):
        SyntheticImages(**arguments)
