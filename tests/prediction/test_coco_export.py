import json

import numpy as np
import pytest
from pycocotools import mask as rle
from pycocotools.coco import COCO

from mpae.prediction.coco import encode_labels, write_coco
from mpae.prediction.journal import Journal, JournalWriter
from mpae.prediction.part_names import PartNames


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (13, 17), (64, 48)])
@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_run_lengths_equal_pycocotools(shape, kinds):
    for seed in range(5):
        mask = np.random.default_rng(seed).integers(0, kinds, shape).astype(np.uint8)
        encoded = encode_labels(mask)
        assert sorted(encoded) == [label for label in np.unique(mask) if label]
        for label, counts in encoded.items():
            expected = rle.encode(np.asfortranarray(mask == label).astype(np.uint8))
            assert counts == expected["counts"].decode()


def box(inside: np.ndarray) -> list[int]:
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    return [int(edge) for edge in (columns[0], rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1)]


def part(mask: np.ndarray, index: int) -> dict[str, object]:
    return {"index": index, "area": int((mask == index).sum()), "box": box(mask == index), "confidence": 0.5}


@pytest.fixture
def masks(tmp_path):
    """Masks by the name of their image; tmp_path has the COCO file of them."""
    masks = {f"{n}.jpg": np.random.default_rng(n).integers(0, 3, (20 + n, 30)).astype(np.uint8) for n in range(3)}
    masks["empty.jpg"] = np.zeros((5, 6), dtype=np.uint8)
    writer = JournalWriter(tmp_path / "journal")
    for name, mask in masks.items():
        parts = [part(mask, int(k)) for k in np.unique(mask) if k]
        writer.append({"name": name, "file": name, "width": mask.shape[1], "height": mask.shape[0],
                       "parts": parts, "kept": {"coco": encode_labels(mask)}}, {})
    writer.close()
    write_coco(tmp_path / "coco.json", Journal(tmp_path / "journal", list(masks), list(masks)), PartNames(4))
    return masks


def test_pycocotools_loads_what_is_written(masks, tmp_path, capsys):
    coco = COCO(tmp_path / "coco.json")
    assert [category["name"] for category in coco.loadCats(coco.getCatIds())] == [
        "part-01", "part-02", "part-03", "part-04"]
    assert {image["file_name"] for image in coco.imgs.values()} == set(masks)
    for image in coco.imgs.values():
        mask = np.zeros((image["height"], image["width"]), dtype=np.uint8)
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=image["id"])):
            mask[coco.annToMask(annotation) == 1] = annotation["category_id"]
            assert annotation["area"] == rle.area(coco.annToRLE(annotation))
        assert np.array_equal(mask, masks[image["file_name"]])


def test_the_importer_of_fiftyone_finds_what_it_reads(masks, tmp_path):
    """What `COCODetectionDataset` of FiftyOne 1.22 takes from a file, by its own rules."""
    content = json.loads((tmp_path / "coco.json").read_text())
    assert isinstance(content["info"], dict)
    assert content["licenses"] == []
    names = {category["id"]: category["name"] for category in content["categories"]}
    assert len(set(names.values())) == len(names)
    assert all(category["supercategory"] for category in content["categories"])
    images = {image["id"]: image for image in content["images"]}
    assert len(images) == len({image["file_name"] for image in images.values()}) == len(masks)
    for annotation in content["annotations"]:
        image, (x, y, width, height) = images[annotation["image_id"]], annotation["bbox"]
        encoded = annotation["segmentation"]
        assert isinstance(encoded["counts"], str)  # compressed; a list would be taken for plain run lengths
        assert encoded["size"] == [image["height"], image["width"]]
        whole = rle.decode(encoded).astype(bool)
        assert whole[y:y + height, x:x + width].sum() == whole.sum() == annotation["area"]  # it cuts masks to boxes
        assert annotation["category_id"] in names
        assert 0 <= annotation["score"] <= 1
        assert annotation["iscrowd"] == 0


def test_no_images_are_a_valid_file_too(tmp_path):
    JournalWriter(tmp_path).close()
    write_coco(tmp_path / "coco.json", Journal(tmp_path, [], []), PartNames(2))
    content = json.loads((tmp_path / "coco.json").read_text())
    assert content["images"] == content["annotations"] == []
    assert len(content["categories"]) == 2
