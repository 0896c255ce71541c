import errno
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mpae.data.sources.in_memory import InMemoryImages
from mpae.drawing.palette import part_colours
from mpae.errors import MPAEError
from mpae.files import write_skipped, write_text
from mpae.model.protocol import PartMaps
from mpae.prediction import outputs
from mpae.prediction.journal import Journal, JournalWriter
from mpae.prediction.masks import probabilities
from mpae.prediction.outputs import DEFAULT_OUTPUTS, OUTPUTS, Output, Predicted
from mpae.prediction.part_names import PartNames
from mpae.prediction.predictor import predict_folder

LOGITS = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
MASK = np.array([[0, 1, 2], [3, 3, 0]], dtype=np.uint8)


def found(mask: np.ndarray = MASK, num_parts: int = 3, logits: np.ndarray = LOGITS,
          size: tuple[int, int] = (3, 2)) -> Predicted:
    logits = logits if len(logits) == num_parts + 1 else np.zeros((num_parts + 1, 1, 1), np.float32)
    return Predicted(size, logits, mask, [], np.zeros((num_parts, 5)), np.zeros((num_parts, 2)),
                     np.zeros((20, 30, 3), np.uint8), PartNames(num_parts))


def test_mask_file_holds_labels_and_shows_colours(tmp_path):
    outputs.write_mask(tmp_path / "sub" / "a.png", found())
    with Image.open(tmp_path / "sub" / "a.png") as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image), MASK)
        colours = np.asarray(image.convert("RGB"))
    assert (colours[0, 0] == 0).all()
    assert np.array_equal(colours[[0, 0, 1], [1, 2, 0]], part_colours(3))


def test_mask_file_with_every_label(tmp_path):
    mask = np.arange(256, dtype=np.uint8).reshape(16, 16)
    outputs.write_mask(tmp_path / "a.png", found(mask, num_parts=255))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), mask)


def test_probabilities_file(tmp_path):
    outputs.write_probabilities(tmp_path / "a.npz", found(size=(300, 200)))
    with np.load(tmp_path / "a.npz") as archive:
        written = archive["probabilities"]
    assert written.dtype == np.float16
    assert written.shape == (4, 200, 300)
    assert np.abs(written - probabilities(LOGITS, (300, 200))).max() < 1e-3


def journal_of(folder: Path, n: int) -> Journal:
    names = [f"{index}.jpg" for index in range(n)]
    writer = JournalWriter(folder)
    for index, name in enumerate(names):
        parts = [{"index": 1 + index % 3}]
        writer.append({"name": name, "file": name, "width": 4, "height": 4, "parts": parts, "kept": {"coco": "x"}},
                      {"colours": np.full((3, 2), -1.0), "descriptors": np.full((3, 5), index, dtype=np.float32)})
    writer.close()
    return Journal(folder, names, names)


def test_descriptors_file(tmp_path):
    outputs.write_descriptors(tmp_path / "d.npz", journal_of(tmp_path, 4), PartNames(3))
    with np.load(tmp_path / "d.npz") as archive:
        assert archive["names"].tolist() == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
        assert archive["descriptors"].dtype == np.float32
        assert archive["descriptors"][:, 0, 0].tolist() == [0, 1, 2, 3]
        assert archive["descriptors"].shape == (4, 3, 5)
        assert np.array_equal(archive["present"], np.eye(3, dtype=bool)[[0, 1, 2, 0]])


def test_descriptors_of_no_images(tmp_path):
    outputs.write_descriptors(tmp_path / "d.npz", journal_of(tmp_path, 0), PartNames(3))
    with np.load(tmp_path / "d.npz") as archive:
        assert [len(archive[key]) for key in ("names", "descriptors", "present")] == [0, 0, 0]


def test_memory_of_the_tables_does_not_grow_with_the_images(tmp_path):
    def peak(n: int) -> int:
        journal = journal_of(tmp_path / str(n), n)
        tracemalloc.start()
        try:
            outputs.write_descriptors(tmp_path / "d.npz", journal, PartNames(3))
            outputs.write_parts(tmp_path / "parts.jsonl", journal, PartNames(3))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # imports and caches
    assert peak(800) < peak(100) + 700 * 300  # a name is all that is kept of an image


def test_parts_table_leaves_out_what_is_internal(tmp_path):
    outputs.write_parts(tmp_path / "parts.jsonl", journal_of(tmp_path, 1), PartNames(3))
    assert (tmp_path / "parts.jsonl").read_text() == (
        '{"name": "0.jpg", "file": "0.jpg", "width": 4, "height": 4, "parts": [{"index": 1}]}\n')


def test_skipped_has_one_line_an_image_and_is_absent_without_any(tmp_path):
    file = tmp_path / "skipped.txt"
    write_skipped(file, [("a.jpg", "empty"), ("new\nline.jpg", "odd")])
    assert len(file.read_text().splitlines()) == 2
    write_skipped(file, [])
    assert not file.exists()


def run_out_of_space(path: Path) -> None:
    Path(path).write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("write", [
    lambda path: outputs.write_mask(path, found()),
    lambda path: outputs.write_overlay(path, found()),
], ids=["mask", "overlay"])
def test_a_full_disk_is_one_sentence_and_leaves_no_half_of_a_picture(tmp_path, monkeypatch, write):
    monkeypatch.setattr(Image.Image, "save", lambda self, path, **options: run_out_of_space(path))
    with pytest.raises(MPAEError, match=r"The disk is full: '.*a.file' could not be written"):
        write(tmp_path / "a.file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [
    lambda folder, journal: outputs.write_probabilities(folder / "a.npz", found(size=(9, 9))),
    lambda folder, journal: outputs.write_descriptors(folder / "a.npz", journal, PartNames(3)),
], ids=["probabilities", "descriptors"])
def test_a_full_disk_leaves_no_half_of_an_archive(tmp_path, monkeypatch, write):
    journal = journal_of(tmp_path / "journal", 2)

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(outputs, "_write_array", fail)
    with pytest.raises(MPAEError, match="disk is full"):
        write(tmp_path, journal)
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_what_is_written_by_default_is_said_by_each_output() -> None:
    assert DEFAULT_OUTPUTS == ("masks", "overlays", "parts", "coco", "descriptors", "features")
    for name, output in OUTPUTS.items():
        assert output.name == name
        assert output.title
        assert (output.image is None) == ("{}" not in output.path)
        assert (output.image is None) == (output.table is not None)


def test_a_new_output_is_a_function_and_a_line(tmp_path, monkeypatch):
    """Written, listed, resumed and cleared like the others."""
    def write_sizes(path: Path, journal: Journal, names: PartNames) -> None:
        path.write_text(" ".join(str(numbers.shape[0] * names.num_parts) for numbers in journal.numbers("sizes")))

    monkeypatch.setitem(OUTPUTS, "sizes", Output("sizes", "sizes.txt", "as a trial", default=False, table=write_sizes,
                                                 keep=lambda found: np.zeros((found.num_parts, 1))))
    monkeypatch.setitem(OUTPUTS, "marks", Output("marks", "marks/{}.txt", "as a trial", default=False,
                                                 image=lambda path, found: write_text(path, str(found.size))))
    source = InMemoryImages([np.zeros((8, 9, 3), np.uint8)])
    done = predict_folder(Model(), source, tmp_path / "out", run="x", write=["sizes", "descriptors", "marks"])
    assert (tmp_path / "out" / "sizes.txt").read_text() == "9"
    assert (tmp_path / "out" / "marks" / "image-000000.txt").read_text() == "(9, 8)"
    done.folder.clear()
    assert list((tmp_path / "out").iterdir()) == []


class Model:
    """K = 3, whatever it sees."""

    num_parts, image_size = 3, 4

    def describe(self, images: torch.Tensor) -> PartMaps:
        return PartMaps(torch.zeros(len(images), 4, 2, 2), torch.zeros(len(images), 4, 5))

    def part_logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.describe(images).logits
