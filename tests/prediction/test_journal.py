import errno

import numpy as np
import pytest

from mpae.errors import MPAEError
from mpae.prediction import journal as module
from mpae.prediction.journal import Journal, JournalWriter


def record(name: str, file: str | None = None) -> dict[str, object]:
    return {"name": name, "file": file or name, "parts": [], "kept": {}}


def numbers(value: float) -> np.ndarray:
    return np.full((2, 3), value, dtype=np.float32)


def append(folder, names, rank=0):
    writer = JournalWriter(folder, rank)
    for name in names:
        writer.append(record(name), {"descriptors": numbers(float(name))})
    writer.close()


def check(folder, names, done):
    journal = Journal(folder, names, names)
    assert [entry["name"] for entry in journal.records()] == done
    kept = [array.tolist() for array in journal.numbers("descriptors")]
    assert kept == [numbers(float(name)).tolist() for name in done]
    assert [names[index] for index in journal.undone()] == [name for name in names if name not in done]
    assert len(journal) == len(done)


def test_records_come_in_the_order_of_the_images_whoever_wrote_them(tmp_path):
    append(tmp_path, ["5", "1"], rank=0)
    append(tmp_path, ["4", "0"], rank=1)
    check(tmp_path, ["0", "1", "2", "4", "5"], ["0", "1", "4", "5"])


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_done_again(tmp_path, cut):
    append(tmp_path, ["0", "1", "2"])
    lines = tmp_path / "images-0.jsonl"
    lines.write_bytes(lines.read_bytes()[:-cut])
    check(tmp_path, ["0", "1", "2", "3"], ["0", "1"])
    append(tmp_path, ["2", "3"])
    check(tmp_path, ["0", "1", "2", "3"], ["0", "1", "2", "3"])


def test_a_line_without_its_numbers_is_done_again(tmp_path):
    append(tmp_path, ["0", "1"])
    file = tmp_path / "numbers-0.f32"
    file.write_bytes(file.read_bytes()[:-1])
    check(tmp_path, ["0", "1"], ["0"])


def test_the_later_of_two_records_counts(tmp_path):
    writer = JournalWriter(tmp_path)
    for value in (1.0, 2.0):
        writer.append(record("a"), {"colours": numbers(7), "descriptors": numbers(value)})
    writer.close()
    assert [array[0, 0] for array in Journal(tmp_path, ["a"], ["a"]).numbers("descriptors")] == [2.0]


def test_what_was_written_under_another_name_is_not_done(tmp_path):
    writer = JournalWriter(tmp_path)
    writer.append(record("a.jpg", file="a"), {})
    writer.close()
    assert Journal(tmp_path, ["a.jpg"], ["a"]).undone() == []
    assert Journal(tmp_path, ["a.jpg", "a.png"], ["a.jpg", "a.png"]).undone() == [0, 1]


def test_odd_names_survive(tmp_path):
    names = ["new\nline.png", "\udcff.png", "鳥.png", '"']
    writer = JournalWriter(tmp_path)
    for name in names:
        writer.append(record(name), {})
    writer.close()
    assert [entry["name"] for entry in Journal(tmp_path, names, names).records()] == names


def test_a_full_disk_is_one_sentence_and_what_was_done_stays(tmp_path, monkeypatch):
    append(tmp_path, ["0"])
    writer = JournalWriter(tmp_path)

    class FullFile:
        def write(self, content: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        seek = close = lambda self, *arguments: None

    writer.lines.close()
    monkeypatch.setattr(writer, "lines", FullFile())
    with pytest.raises(MPAEError, match=r"disk is full: '.*images-0.jsonl'"):
        writer.append(record("1"), {"descriptors": numbers(1)})
    writer.close()
    check(tmp_path, ["0", "1"], ["0"])
    assert module.Journal(tmp_path, ["1"], ["1"]).undone() == [0]
