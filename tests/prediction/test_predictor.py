import contextlib
import errno
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from pycocotools.coco import COCO
from torch import Tensor

from mpae.cores import available_cores
from mpae.data.source import Picture
from mpae.data.sources.folder import FolderImages
from mpae.errors import MPAEError
from mpae.model.protocol import PartMaps
from mpae.prediction import predictor as predict
from mpae.prediction.output_paths import output_names
from mpae.prediction.predictor import PartPredictor, predict_folder

ALL = ("masks", "overlays", "parts", "coco", "descriptors", "features", "probabilities")


class ColourParts:
    """Parts by colour and place: logits are linear in the pooled pixels and differ between left and right."""

    image_size = 16

    def __init__(self, num_parts: int = 3):
        generator = torch.Generator().manual_seed(1)
        self.num_parts = num_parts
        self.weights = torch.randn(num_parts + 1, 4, generator=generator) * 8
        self.images = 0

    def describe(self, images: Tensor) -> PartMaps:
        self.images += len(images)
        pooled = F.avg_pool2d(images, 4)  # (B, 3, 4, 4)
        place = torch.linspace(-1, 1, 4).expand(len(images), 1, 4, 4)
        features = torch.cat([pooled, place], 1)  # (B, 4, 4, 4)
        logits = torch.einsum("kc,bchw->bkhw", self.weights, features)
        descriptors = self.weights + images.mean((1, 2, 3))[:, None, None]
        return PartMaps(logits, descriptors)

    def part_logits(self, images: Tensor) -> Tensor:
        return self.describe(images).logits


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    sizes = {"a.jpg": (40, 30), "a.png": (33, 47), "birds/heron.jpg": (120, 80), "birds/wren.png": (20, 20),
             "one pixel.png": (1, 1), "z.png": (64, 48)}
    for seed, (name, size) in enumerate(sizes.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture(seed, size).save(folder / name)
    (folder / "broken.jpg").write_bytes(b"not an image")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(photos: Path, out: Path, **options):
    defaults = {"run": "abc", "write": ALL, "batch_size": 2}
    return predict_folder(ColourParts(), FolderImages(photos), out, **(defaults | options))


def test_folder_in_folder_out(photos, tmp_path):
    out = tmp_path / "out"
    seen: list[tuple[str, int, int]] = []
    result = run(photos, out, progress=lambda *step: seen.append(step))
    stems = ["a.jpg", "a.png", "birds/heron", "birds/wren", "one pixel", "z"]
    assert set(tree(out)) == {
        "predictions.json", "parts.jsonl", "coco.json", "descriptors.npz", "features.npy", "skipped.txt",
        *(f"masks/{stem}.png" for stem in stems), *(f"overlays/{stem}.jpg" for stem in stems),
        *(f"probabilities/{stem}.npz" for stem in stems)}
    assert (result.images, result.new) == (6, 6)
    [(name, reason)] = result.skipped
    assert name == "broken.jpg"
    assert (out / "skipped.txt").read_text() == f"broken.jpg\t{reason}\n"
    assert seen[-1] == ("predict", 7, 7)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_all_files_tell_the_same(photos, tmp_path):
    out = tmp_path / "out"
    run(photos, out)
    names = [name for name in FolderImages(photos).names if name != "broken.jpg"]
    pictures = [FolderImages(photos, names)[index] for index in range(6)]
    expected = list(PartPredictor(ColourParts()).predict(pictures, batch_size=4, with_probabilities=True))
    rows = [json.loads(line) for line in (out / "parts.jsonl").read_text().splitlines()]
    coco = COCO(out / "coco.json")
    with np.load(out / "descriptors.npz") as archive:
        tables = dict(archive)
    assert tables["names"].tolist() == names == [row["name"] for row in rows] == [parts.name for parts in expected]
    assert np.allclose(tables["descriptors"], [parts.descriptors for parts in expected], atol=1e-6)
    for number, (row, parts) in enumerate(zip(rows, expected, strict=True), start=1):
        assert (row["width"], row["height"]) == parts.size == pictures[number - 1].image.size
        assert np.array_equal(np.asarray(Image.open(out / "masks" / f"{row['file']}.png")), parts.mask)
        assert row["parts"] == [part.as_dict() for part in parts.present]
        present = [part.index - 1 for part in parts.present]
        assert np.flatnonzero(tables["present"][number - 1]).tolist() == present
        mask = np.zeros_like(parts.mask)
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=number)):
            mask[coco.annToMask(annotation) == 1] = annotation["category_id"]
        assert np.array_equal(mask, parts.mask)
        with np.load(out / "probabilities" / f"{row['file']}.npz") as archive:
            assert np.allclose(archive["probabilities"], parts.probabilities, atol=1e-3)
    assert coco.imgs[3]["file_name"] == "birds/heron.jpg"


def test_batches_workers_and_threads_change_nothing(photos, tmp_path):
    run(photos, tmp_path / "one", batch_size=1)
    run(photos, tmp_path / "many", batch_size=5, workers=2)
    one, many = tree(tmp_path / "one"), tree(tmp_path / "many")
    assert one.keys() == many.keys()
    assert [name for name in one if one[name] != many[name] and not name.endswith(".npz")] == []


@pytest.mark.parametrize("stop_after", [0, 1, 3, 5])
def test_a_stopped_call_goes_on_and_ends_as_an_unbroken_one(photos, tmp_path, stop_after):
    run(photos, tmp_path / "unbroken")

    class Stop(Exception):
        pass

    def stop(task: str, done: int, total: int) -> None:
        if done > stop_after:
            raise Stop

    out = tmp_path / "stopped"
    with pytest.raises(Stop):
        run(photos, out, progress=stop)
    assert not {"parts.jsonl", "coco.json", "descriptors.npz", "skipped.txt"} & set(tree(out))
    model = ColourParts()
    result = predict_folder(model, FolderImages(photos), out, run="abc", write=ALL, batch_size=2)
    assert result.images == 6
    assert model.images == result.new < 6
    assert tree(out) == tree(tmp_path / "unbroken")


def test_a_finished_folder_is_left_as_it_is(photos, tmp_path):
    run(photos, tmp_path / "out")
    before = tree(tmp_path / "out")
    model = ColourParts()
    result = predict_folder(model, FolderImages(photos), tmp_path / "out", run="abc", write=ALL)
    assert (result.images, result.new, len(result.skipped), model.images) == (6, 0, 1, 0)
    assert tree(tmp_path / "out") == before


def test_predictions_of_another_run_are_kept_unless_overwritten(photos, tmp_path):
    run(photos, tmp_path / "out")
    before = tree(tmp_path / "out")
    with pytest.raises(MPAEError, match="predictions of another run"):
        run(photos, tmp_path / "out", run="xyz")
    assert tree(tmp_path / "out") == before
    run(photos, tmp_path / "out", run="xyz", write=("masks",), overwrite=True)
    assert "coco.json" not in tree(tmp_path / "out")


@pytest.mark.parametrize("kind", ALL)
def test_only_what_is_asked_for_is_written(photos, tmp_path, kind):
    run(photos, tmp_path / "out", write=(kind,))
    files = {"parts": "parts.jsonl", "coco": "coco.json", "descriptors": "descriptors.npz", "features": "features.npy"}
    expected = {"predictions.json", "skipped.txt", files.get(kind, kind)}
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected


@pytest.mark.parametrize(("write", "sentence"), [
    (("masks", "mask"), "Cannot write 'mask'; choose from: masks, overlays"), ((), "Nothing is to be written"),
])
def test_unknown_kinds_are_refused_before_anything_is_made(photos, tmp_path, write, sentence):
    with pytest.raises(MPAEError, match=sentence):
        run(photos, tmp_path / "out", write=write)
    assert not (tmp_path / "out").exists()


class NamedPictures:
    """Names as a list of files may have them."""

    def __init__(self, names: list[str]):
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        return Picture(self.names[index], picture(index), digest=f"{index:032x}")


def test_names_do_not_lead_out_of_the_folder(tmp_path):
    names = ["../../escaped.png", str(tmp_path / "absolute.png"), "a/../../b.png", "new\nline.png", "\udcff.png"]
    out = tmp_path / "deep" / "out"
    before = set(tree(tmp_path))
    result = predict_folder(ColourParts(), NamedPictures(names), out, run="abc", write=ALL)
    assert result.images == 5
    assert all(name.startswith("deep/out/") for name in set(tree(tmp_path)) - before)
    assert {image["file_name"] for image in COCO(out / "coco.json").imgs.values()} == set(names)


def test_a_full_disk_stops_in_one_sentence_and_the_next_call_goes_on(photos, tmp_path, monkeypatch):
    out = tmp_path / "out"
    save = Image.Image.save

    def fail_for_wren(self, path, **options):
        if "wren" in str(path):
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", fail_for_wren)
        with pytest.raises(MPAEError, match=r"disk is full: '.*wren.png' could not be written"):
            run(photos, out)
    assert not [name for name in tree(out) if name.endswith(".part") or "wren" in name]
    run(photos, out)
    run(photos, tmp_path / "unbroken")
    assert tree(out) == tree(tmp_path / "unbroken")


def test_flip_averages_the_picture_and_its_mirror_image():
    model = ColourParts()
    pixels = np.array(picture(0, (16, 16)))[None]
    (logits,), descriptors, _ = PartPredictor(model, flip=True).describe(pixels)
    (mirrored,), *_ = PartPredictor(model, flip=True).describe(pixels[:, :, ::-1].copy())
    assert np.allclose(logits, mirrored[..., ::-1], atol=1e-5)
    (plain,) = PartPredictor(model).describe(pixels).logits
    (other,) = PartPredictor(model).describe(pixels[:, :, ::-1].copy()).logits
    assert np.allclose(logits, (plain + other[..., ::-1]) / 2, atol=1e-5)
    assert not np.allclose(logits, plain, atol=0.1)
    assert descriptors.shape == (1, 3, 4)


def test_a_very_long_picture(tmp_path):
    (tmp_path / "photos").mkdir()
    picture(0, (30_000, 20)).save(tmp_path / "photos" / "long.png")
    result = run(tmp_path / "photos", tmp_path / "out")
    assert result.images == 1
    assert Image.open(tmp_path / "out" / "masks" / "long.png").size == (30_000, 20)


def test_nothing_but_unreadable_images(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    result = run(tmp_path / "photos", tmp_path / "out")
    assert (result.images, [name for name, _ in result.skipped]) == (0, ["a.jpg"])
    assert COCO(tmp_path / "out" / "coco.json").imgs == {}


def test_more_parts_than_a_mask_holds_are_refused(photos, tmp_path):
    with pytest.raises(MPAEError, match="The model has 256 parts, and a mask has room for 255"):
        predict_folder(ColourParts(256), FolderImages(photos), tmp_path / "out", run="abc")


def test_predictor_takes_pictures_only_as_it_needs_them():
    taken = []

    def pictures():
        for index in range(10):
            taken.append(index)
            yield Picture(str(index), picture(index), "0" * 32)

    first = next(PartPredictor(ColourParts()).predict(pictures(), batch_size=2))
    assert first.name == "0"
    assert first.probabilities is None
    assert taken == [0, 1]


def _one_of_two(rank: int, meeting: str, photos: str, out: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    result = run(Path(photos), Path(out))
    assert result.images == 6
    torch.distributed.destroy_process_group()


def test_two_processes_share_the_images(photos, tmp_path):
    run(photos, tmp_path / "one")
    torch.multiprocessing.spawn(_one_of_two, (str(tmp_path / "meeting"), str(photos), str(tmp_path / "two")), nprocs=2)
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_writing_never_runs_far_behind_the_network(tmp_path, monkeypatch):
    """Queues are bounded: when files are slow to write, no more pictures are predicted."""
    (tmp_path / "photos").mkdir()
    for index in range(24):
        picture(index).save(tmp_path / "photos" / f"{index:02d}.png")
    model, ahead = ColourParts(), []
    segment = predict.segment
    monkeypatch.setattr(predict, "segment", lambda *a: (ahead.append(model.images - len(ahead)), segment(*a))[1])
    predict_folder(model, FolderImages(tmp_path / "photos"), tmp_path / "out", run="abc", batch_size=2)
    assert max(ahead) <= 3 * 2 + available_cores()


class Located(torch.nn.Module):
    """Says where its images are; nothing is computed on the device."""

    num_parts, image_size = 2, 4

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.devices: list[tuple[str, str]] = []

    def describe(self, images: torch.Tensor) -> PartMaps:
        self.devices.append((images.device.type, self.weight.device.type))
        return PartMaps(torch.zeros(len(images), 3, 1, 1), torch.zeros(len(images), 3, 5))


@pytest.mark.parametrize(("device", "expected"), [("meta", "meta"), ("cpu", "cpu"), (None, "cpu")])
def test_model_and_images_are_on_the_device_that_was_asked_for(device: str | None, expected: str) -> None:
    model = Located()
    with contextlib.suppress(NotImplementedError):  # nothing comes back from the device "meta"
        PartPredictor(model, device=device).describe(np.zeros((2, 4, 4, 3), np.uint8))  # type: ignore[arg-type]
    assert set(model.devices) == {(expected, expected)}


def test_pixel_outlines_are_the_same_from_the_folder_and_from_pictures(photos: Path, tmp_path: Path) -> None:
    source = FolderImages(photos)
    predict_folder(ColourParts(), source, tmp_path / "out", run="r", write=["masks"], outline="pixel", workers=0)
    fine = list(PartPredictor(ColourParts(), outline="pixel").predict([source[0], source[1]]))
    coarse = list(PartPredictor(ColourParts(), outline="patch").predict([source[0], source[1]]))
    files = [tmp_path / "out" / "masks" / f"{name}.png" for name in output_names(source.names)]
    for file, parts, plain in zip(files[:2], fine, coarse, strict=True):
        assert np.array_equal(np.asarray(Image.open(file)), parts.mask)
        both = (parts.mask > 0) & (plain.mask > 0)
        assert (parts.mask[both] == plain.mask[both]).sum() >= 0.95 * both.sum()  # only object and background move
    assert any(not np.array_equal(parts.mask, plain.mask) for parts, plain in zip(fine, coarse, strict=True))


def test_an_unknown_outline_is_told() -> None:
    with pytest.raises(MPAEError, match="Unknown outline 'sharp'; choose one of: pixel, patch"):
        PartPredictor(ColourParts(), outline="sharp")
