from __future__ import annotations

import doctest
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import draw_photo
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from tiny_run import make_tiny_run, tiny_settings

import mpae
from mpae import PartDiscovery, library
from mpae.data.sources.synthetic import SyntheticImages
from mpae.errors import MPAEError
from mpae.prediction.parts import Part, Parts
from mpae.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("library") / "run")


@pytest.fixture(scope="module")
def model(run: Run) -> PartDiscovery:
    return PartDiscovery.load(run.folder)


def test_examples_of_the_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny_run(tmp_path / "runs" / "birds")
    (tmp_path / "photos").mkdir()
    draw_photo(0).save(tmp_path / "photos" / "heron.jpg")
    monkeypatch.chdir(tmp_path)
    tiny = tiny_settings(tmp_path)
    result = doctest.testmod(library, optionflags=doctest.ELLIPSIS, extraglobs={"tiny": tiny})
    assert result.attempted >= 15
    assert result.failed == 0


def test_importing_mpae_is_light_and_dir_tells_what_it_offers() -> None:
    code = ("import sys, mpae; heavy = {'torch', 'sklearn', 'lightning', 'numpy'} & set(sys.modules); "
            "print(sorted(heavy), 'load' in dir(mpae), hasattr(mpae, 'nothing'))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True False"


def test_every_kind_of_image_gives_the_same_parts(model: PartDiscovery, tmp_path: Path) -> None:
    photo = draw_photo(3)
    photo.save(tmp_path / "photo.png")
    pixels = np.asarray(photo)
    kinds = [tmp_path / "photo.png", str(tmp_path / "photo.png"), photo, pixels, pixels / 255,
             torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255]
    alone = [model.predict(image) for image in kinds]
    together = model.predict(iter(kinds))
    assert [parts.name for parts in together[-2:]] == ["image-000004", "image-000005"]
    assert len(np.unique(alone[0].mask)) > 1
    for parts in alone + together:
        assert parts.mask.shape == (80, 96)
        assert np.array_equal(parts.mask, alone[0].mask)


def test_probabilities_and_flip_on_request(model: PartDiscovery) -> None:
    photo = draw_photo(3)
    parts = model.predict(photo)
    assert parts.probabilities is None
    probabilities = model.predict(photo, probabilities=True).probabilities
    assert probabilities is not None
    assert np.allclose(probabilities.sum(0), 1, atol=1e-2)
    assert np.mean((probabilities.argmax(0) + 1) % 4 == parts.mask) > 0.99
    mirror = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    flipped = model.predict(photo, flip=True).mask, model.predict(mirror, flip=True).mask[:, ::-1]
    assert np.mean(flipped[0] == flipped[1]) > 0.99
    assert np.mean(parts.mask == model.predict(mirror).mask[:, ::-1]) < 0.99


def test_transform_is_the_descriptors_of_what_is_present(model: PartDiscovery) -> None:
    photos = [draw_photo(index) for index in range(4)]
    vectors = model.transform(photos)
    assert vectors.shape == (4, 3 * 33)
    assert vectors.dtype == np.float32
    assert len(model.get_feature_names_out()) == 99
    assert model.get_feature_names_out()[33:35].tolist() == ["part-02", "part-02-000"]
    for vector, parts in zip(vectors, model.predict(photos), strict=True):
        blocks = vector.reshape(3, 33)
        shown = {part.index - 1 for part in parts.present}
        for index, block in enumerate(blocks):
            descriptor = parts.descriptors[index]
            expected = np.r_[1, descriptor / np.linalg.norm(descriptor)] if index in shown else np.zeros(33)
            assert block == pytest.approx(expected, abs=1e-5)


def test_an_absent_part_is_zeros() -> None:
    part = Part(index=1, area=4, share=1.0, centre=(1, 1), box=(0, 0, 2, 2), confidence=0.5)
    parts = Parts("a", np.ones((2, 2), np.uint8), [part], np.array([[0.0, 2.0], [5.0, 5.0]], np.float32))
    assert library.part_vector(parts).tolist() == [1, 0, 1, 0, 0, 0]


def test_transform_feeds_a_classifier_of_the_synthetic_kinds(model: PartDiscovery) -> None:
    """Even an untrained model tells animals and vehicles apart, far better than the one in four of chance."""
    source = SyntheticImages(96, size=64)
    images, kinds = [source[i].image for i in range(96)], [source.kind(i) for i in range(96)]
    pipeline = make_pipeline(model, StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
    vectors = pipeline[0].transform(images)
    classifier = pipeline[1:].fit(vectors[:64], kinds[:64])
    assert classifier.score(vectors[64:], kinds[64:]) > 0.4
    assert pipeline.predict(images[64:66]).tolist() == classifier.predict(vectors[64:66]).tolist()


def test_fits_inside_a_pipeline_and_is_copied_by_scikit_learn(photos: Path, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path) | {"training.max_steps": 1}
    images = [Image.open(path) for path in sorted(photos.glob("*.jpg"))]
    original = PartDiscovery(parts=2, preset="laptop", settings=settings)
    pipeline = make_pipeline(clone(original), LogisticRegression())
    pipeline.fit(images, [0, 1] * 4)
    fitted = pipeline[0]
    assert fitted.get_params() == {"parts": 2, "preset": "laptop", "out": None, "settings": settings,
                                   "device": "auto"}
    assert fitted.run_.config().data.root is None
    assert pipeline.predict(images).shape == (8,)
    folder = fitted.run_.folder
    assert folder.is_dir()
    restored = pickle.loads(pickle.dumps(fitted))
    assert restored.run_.folder != folder
    assert np.array_equal(restored.transform(images), fitted.transform(images))
    del pipeline, fitted
    assert not folder.exists()  # a temporary folder goes with its object
    with pytest.raises(NotFittedError):
        original.predict(images)


def test_fits_a_folder_and_keeps_the_run(photos: Path, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path) | {"training.max_steps": 1}
    model = PartDiscovery(parts=2, preset="laptop", settings=settings).fit(photos, out=tmp_path / "run")
    assert Run.open(tmp_path / "run").config().data.root == str(photos)
    again = mpae.load(tmp_path / "run")
    assert again.parts == 2
    assert np.array_equal(again.transform(photos), model.transform(photos))
    with pytest.raises(MPAEError, match=r"holds a run already; use it with PartDiscovery\.load"):
        model.fit(photos, out=tmp_path / "run")


def test_a_loaded_model_is_refitted_with_the_settings_of_its_run(model: PartDiscovery, run: Run) -> None:
    from mpae.config import resolve

    copy = clone(model)
    config = resolve(copy.preset, None, copy.settings | {"model.num_parts": copy.parts})
    assert config == run.config()


def test_saves_a_run_folder(model: PartDiscovery, run: Run, tmp_path: Path) -> None:
    run.previews.mkdir(exist_ok=True)
    draw_photo(0).save(run.previews / "step-000001.png")
    model.save(tmp_path / "deep" / "copy")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == [
        "deep/copy/config.yaml", "deep/copy/model.safetensors", "deep/copy/previews/step-000001.png"]
    with pytest.raises(MPAEError, match="exists already; save to another folder"):
        model.save(tmp_path / "deep")


def test_mistakes_get_a_sentence(model: PartDiscovery, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match="Unknown device 'tpu'"):
        mpae.load(model.run_.folder, device="tpu")
    with pytest.raises(NotFittedError, match=r"call fit\(images\)"):
        PartDiscovery().transform([draw_photo(0)])
    with pytest.raises(NotFittedError):
        PartDiscovery().save(tmp_path / "run")
    with pytest.raises(MPAEError, match="No run folder"):
        PartDiscovery.load(tmp_path / "nowhere")
    with pytest.raises(MPAEError, match="No such folder"):
        PartDiscovery().fit(tmp_path / "nowhere")
    with pytest.raises(MPAEError, match="at least 2 images and one was given"):
        PartDiscovery().fit(draw_photo(0))  # type: ignore[arg-type]
    with pytest.raises(MPAEError, match="give it as parts=K"):
        PartDiscovery(settings={"model.num_parts": 4}).fit(photos)
    with pytest.raises(MPAEError, match=r"did you mean 'training\.epochs'"):
        PartDiscovery(settings={"training.epoch": 4}).fit(photos)
    with pytest.raises(MPAEError, match="no image to transform"):
        model.transform([])
    with pytest.raises(MPAEError, match="Cannot read the image"):
        model.predict([draw_photo(0), tmp_path / "nowhere.jpg"])
    with pytest.raises(ValueError, match="expected floats in"):
        model.predict(np.full((8, 8, 3), 99.0))
    with pytest.raises(TypeError, match="expected a path"):
        model.predict([{"image": 1}])  # type: ignore[list-item]


# scikit-learn's checks that need no table of numbers to fit to.
CHECKS = ("check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
          "check_parameters_default_constructible", "check_get_params_invariance", "check_set_params",
          "check_do_not_raise_errors_in_init_or_set_param", "check_estimator_tags_renamed", "check_valid_tag_types",
          "check_mixin_order")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(check: str) -> None:
    function = getattr(estimator_checks, check, None)
    if function is None:
        pytest.skip(f"this scikit-learn has no {check}")
    function("PartDiscovery", PartDiscovery())


def test_scikit_learn_is_told_that_it_takes_images() -> None:
    with pytest.warns(Warning, match="Can't test estimator PartDiscovery which requires input"):
        estimator_checks.check_estimator(PartDiscovery())
