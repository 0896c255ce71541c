import errno
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mpae.drawing.palette import part_colours
from mpae.errors import MPAEError
from mpae.prediction import writers
from mpae.prediction.journal import Journal, JournalWriter
from mpae.prediction.masks import probabilities

LOGITS = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
MASK = np.array([[0, 1, 2], [3, 3, 0]], dtype=np.uint8)


def test_mask_file_holds_labels_and_shows_colours(tmp_path):
    writers.write_mask(tmp_path / "sub" / "a.png", MASK, num_parts=3)
    with Image.open(tmp_path / "sub" / "a.png") as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image), MASK)
        colours = np.asarray(image.convert("RGB"))
    assert (colours[0, 0] == 0).all()
    assert np.array_equal(colours[[0, 0, 1], [1, 2, 0]], part_colours(3))


def test_mask_file_with_every_label(tmp_path):
    mask = np.arange(256, dtype=np.uint8).reshape(16, 16)
    writers.write_mask(tmp_path / "a.png", mask, num_parts=255)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), mask)


def test_probabilities_file(tmp_path):
    writers.write_probabilities(tmp_path / "a.npz", LOGITS, (300, 200))
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
        writer.append({"name": name, "file": name, "parts": parts, "runs": {"1": "x"}},
                      np.full((3, 5), index, dtype=np.float32))
    writer.close()
    return Journal(folder, names, names)


def test_descriptors_file(tmp_path):
    writers.write_descriptors(tmp_path / "d.npz", journal_of(tmp_path, 4), num_parts=3)
    with np.load(tmp_path / "d.npz") as archive:
        assert archive["names"].tolist() == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
        assert archive["descriptors"].dtype == np.float32
        assert archive["descriptors"][:, 0, 0].tolist() == [0, 1, 2, 3]
        assert archive["descriptors"].shape == (4, 3, 5)
        assert np.array_equal(archive["present"], np.eye(3, dtype=bool)[[0, 1, 2, 0]])


def test_descriptors_of_no_images(tmp_path):
    writers.write_descriptors(tmp_path / "d.npz", journal_of(tmp_path, 0), num_parts=3)
    with np.load(tmp_path / "d.npz") as archive:
        assert [len(archive[key]) for key in ("names", "descriptors", "present")] == [0, 0, 0]


def test_memory_of_the_tables_does_not_grow_with_the_images(tmp_path):
    def peak(n: int) -> int:
        journal = journal_of(tmp_path / str(n), n)
        tracemalloc.start()
        try:
            writers.write_descriptors(tmp_path / "d.npz", journal, num_parts=3)
            writers.write_parts_table(tmp_path / "parts.jsonl", journal)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # imports and caches
    assert peak(800) < peak(100) + 700 * 300  # a name is all that is kept of an image


def test_parts_table_leaves_out_what_is_internal(tmp_path):
    writers.write_parts_table(tmp_path / "parts.jsonl", journal_of(tmp_path, 1))
    assert (tmp_path / "parts.jsonl").read_text() == '{"name": "0.jpg", "file": "0.jpg", "parts": [{"index": 1}]}\n'


def test_skipped_has_one_line_an_image_and_is_absent_without_any(tmp_path):
    file = tmp_path / "skipped.txt"
    writers.write_skipped(file, [("a.jpg", "empty"), ("new\nline.jpg", "odd")])
    assert len(file.read_text().splitlines()) == 2
    writers.write_skipped(file, [])
    assert not file.exists()


def run_out_of_space(path: Path) -> None:
    Path(path).write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("write", [
    lambda path: writers.write_mask(path, MASK, 3),
    lambda path: writers.write_overlay(path, Image.new("RGB", (30, 20)), MASK),
], ids=["mask", "overlay"])
def test_a_full_disk_is_one_sentence_and_leaves_no_half_of_a_picture(tmp_path, monkeypatch, write):
    monkeypatch.setattr(Image.Image, "save", lambda self, path, **options: run_out_of_space(path))
    with pytest.raises(MPAEError, match=r"The disk is full: '.*a.file' could not be written"):
        write(tmp_path / "a.file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [
    lambda folder, journal: writers.write_probabilities(folder / "a.npz", LOGITS, (9, 9)),
    lambda folder, journal: writers.write_descriptors(folder / "a.npz", journal, 3),
], ids=["probabilities", "descriptors"])
def test_a_full_disk_leaves_no_half_of_an_archive(tmp_path, monkeypatch, write):
    journal = journal_of(tmp_path / "journal", 2)

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writers, "_write_array", fail)
    with pytest.raises(MPAEError, match="disk is full"):
        write(tmp_path, journal)
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]
