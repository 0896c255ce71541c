"""Part masks from COCO json: the rules of the evaluation, one by one, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniatures import annotate, coco, rectangle
from pycocotools import mask

from mpae.data.benchmarks.coco import has_polygons, parse_parts, rasterise, read_json
from mpae.errors import MPAEError

PATH = Path("parts.json")
IMAGE = {"id": 7, "file_name": "a.JPEG", "width": 20, "height": 10}


def labels_of(*annotations: dict[str, Any]) -> np.ndarray:
    image = parse_parts(coco([IMAGE], list(annotations)), PATH).images[7]
    return rasterise(image.shapes, image.size, background=40)


def test_rectangles_are_filled_exactly() -> None:
    labels = labels_of(annotate(0, 7, 5, [(2, 3, 4, 5), (10, 0, 3, 2)]))
    expected = np.full((10, 20), 40)
    expected[3:8, 2:6] = expected[0:2, 10:13] = 5  # one annotation of two polygons is their union
    np.testing.assert_array_equal(labels, expected)
    assert labels.dtype == np.uint8


def test_area_zero_and_crowds_are_skipped() -> None:
    nothing = annotate(0, 7, 5, [(2, 3, 4, 5)]) | {"area": 0}
    crowd = annotate(1, 7, 6, [(2, 3, 4, 5)]) | {"iscrowd": 1}
    assert (labels_of(nothing, crowd) == 40).all()
    assert parse_parts(coco([IMAGE], [crowd]), PATH).images[7].annotated  # it was looked at, all the same


def test_a_polygon_of_four_numbers_is_the_box_of_the_annotation() -> None:
    entry = annotate(0, 7, 5, [(2, 3, 4, 5)]) | {"segmentation": [[2, 3, 4, 5]], "bbox": [10, 1, 6, 4]}
    expected = np.full((10, 20), 40)
    expected[1:5, 10:16] = 5
    np.testing.assert_array_equal(labels_of(entry), expected)


def test_overlaps_go_to_the_part_marked_more_often_then_to_the_lower_id() -> None:
    nine, two = annotate(0, 7, 9, [(0, 0, 6, 6)]), annotate(1, 7, 2, [(4, 0, 6, 6)])
    assert (labels_of(nine, two)[0, :10] == [9] * 4 + [2] * 6).all()
    again = annotate(2, 7, 9, [(0, 0, 6, 6)])
    assert (labels_of(nine, two, again)[0, :10] == [9] * 6 + [2] * 4).all()


def test_random_shapes_agree_with_the_protocol_taken_literally() -> None:
    """Every part a plane of counts, then a plane of 0.1 for the background, then the largest."""
    random = np.random.default_rng(0)
    for _ in range(20):
        annotations = []
        for number in range(6):
            polygons = random.uniform(-3, 22, (int(random.integers(1, 3)), 8)).tolist()
            entry = annotate(number, 7, int(random.integers(0, 4)), [(0, 0, 1, 1)])
            annotations.append(entry | {"segmentation": polygons})
        planes = np.zeros((41, 10, 20))
        for entry in annotations:
            runs = mask.merge(mask.frPyObjects(entry["segmentation"], 10, 20))
            planes[entry["category_id"]] += mask.decode(runs)
        planes[40] = 0.1
        np.testing.assert_array_equal(labels_of(*annotations), planes.argmax(0))


def test_a_polygon_without_area_and_one_that_leans_out() -> None:
    point = annotate(0, 7, 5, [(2, 3, 4, 5)]) | {"segmentation": [[3, 3], []]}
    assert (labels_of(point) == 40).all()
    outside = annotate(0, 7, 5, [(15, 5, 9, 9)])
    assert (labels_of(outside)[5:, 15:] == 5).all()


def test_ids_that_start_at_one_are_moved_down() -> None:
    content = coco([IMAGE], [annotate(0, 7, 40, [(0, 0, 2, 2)])], first_id=1)
    parts = parse_parts(content, PATH)
    assert parts.part_names[39] == "Bottle Mouth"
    assert parts.images[7].shapes[0].part == 39


def test_a_json_of_sizes_has_no_polygons() -> None:
    assert has_polygons(coco([IMAGE], [annotate(0, 7, 5, [(0, 0, 2, 2)])]))
    for content in ([], {}, {"annotations": []}, {"annotations": [{"id": 3}]}, {"a.JPEG": {"height": 3}}):
        assert not has_polygons(content)


GOOD = annotate(0, 7, 5, [(2, 3, 4, 5)])
BAD = [
    ({"images": 3}, "'parts.json' has no list 'images'; expected COCO's images, annotations and categories."),
    ({"images": [5]}, "'parts.json', images[0] is a int; expected an object."),
    ({"images": [IMAGE, IMAGE]}, "'parts.json', images[1]: image id 7 is used a second time."),
    ({"images": [IMAGE | {"id": "x"}]}, "images[0]: 'id' is 'x'; expected an integer."),
    ({"images": [IMAGE | {"width": 0}]}, "images[0]: the image is 0 x 10 pixels"),
    ({"images": [IMAGE | {"file_name": None}]}, "images[0]: 'file_name' is None; expected a text."),
    ({"images": [IMAGE | {"file_name": "../a.JPEG"}]}, "images[0]: '../a.JPEG' is no path inside the"),
    ({"images": [IMAGE | {"file_name": "..\\a.JPEG"}]}, "is no path inside the dataset folder"),
    ({"images": [IMAGE | {"file_name": "C:\\a.JPEG"}]}, "is no path inside the dataset folder"),
    ({"images": [IMAGE | {"file_name": "/a.JPEG"}]}, "images[0]: '/a.JPEG' is no path inside the dataset"),
    ({"categories": []}, "'parts.json' has 0 categories; expected 1 to 255."),
    ({"categories": [{"id": 1}, {"id": 1}]}, "categories[1]: category id 1 is used a second time."),
    ({"annotations": [GOOD | {"image_id": 8}]}, "annotations[0]: image_id 8 is not among the images of"),
    ({"annotations": [GOOD, GOOD | {"category_id": 40}]}, "annotations[1]: category_id 40 is not among the"),
    ({"annotations": [GOOD | {"segmentation": "abc"}]}, "annotations[0]: 'segmentation' is 'abc'; expected"),
    ({"annotations": [GOOD | {"segmentation": [["a"] * 6]}]}, "is no list of coordinates."),
    ({"annotations": [GOOD | {"segmentation": [[1] * 7]}]}, "a polygon has 7 numbers; expected pairs of x"),
    ({"annotations": [GOOD | {"segmentation": [[1e9] * 6]}]}, "lies outside its image of 20 x 10 pixels."),
    ({"annotations": [GOOD | {"segmentation": [[float("nan")] * 6]}]}, "lies outside its image"),
    ({"annotations": [GOOD | {"segmentation": [[1] * 4], "bbox": [1]}]}, "'bbox' has 1 numbers"),
]


@pytest.mark.parametrize(("change", "expected"), BAD)
def test_what_is_wrong_is_named(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(MPAEError) as caught:
        parse_parts(coco([IMAGE], [GOOD]) | change, PATH)
    assert expected in str(caught.value)


def test_broken_json_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text('{"images": [\n{"id": 1},\n')
    with pytest.raises(MPAEError, match=r"train.json', line 3: not JSON \(.*\); get the file again."):
        read_json(path)
    for content in (b"\xff\xfe\x00", b"[" * 100_000, b"1" * 10_000):
        path.write_bytes(content)
        with pytest.raises(MPAEError, match="not JSON"):
            read_json(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 60) | st.floats() | st.text(max_size=4) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.just("id"), inner, max_size=2),
    max_leaves=8)
KEYS = ["id", "file_name", "width", "image_id", "category_id", "segmentation", "bbox", "area", "iscrowd", ""]


@settings(max_examples=50, deadline=None)
@given(place=st.sampled_from(["images", "annotations", "categories"]), key=st.sampled_from(KEYS),
       value=values)
def test_garbage_gives_an_error_and_nothing_else(place: str, key: str, value: Any) -> None:
    entry = GOOD | {"segmentation": [rectangle(1, 1, 3, 3), [1, 1, 2, 2]]}
    content = coco([IMAGE], [entry])
    if key:
        content[place][0] = {**content[place][0], key: value}
    else:
        content[place] = value
    with contextlib.suppress(MPAEError):
        for image in parse_parts(content, PATH).images.values():
            rasterise(image.shapes, image.size, background=40)
