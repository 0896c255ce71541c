"""NME: centres by loops, known linear maps, known noise, parts that are absent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mpae.metrics.regression import (
    KeypointSample,
    KeypointSamples,
    keypoint_errors,
    nme,
    normaliser_of,
    part_centres,
)


def samples(n: int, seed: int, *, parts: int = 6, landmarks: int = 3, noise: float = 0.0,
            hidden: float = 0.0, inactive: float = 0.0) -> KeypointSamples:
    """Keypoints are a fixed linear map of the centres plus an offset and noise of a known size."""
    fixed = np.random.default_rng(99)
    weights = fixed.normal(size=(2 * parts, 2 * landmarks)) / np.sqrt(parts)
    offset = fixed.normal(size=2 * landmarks)
    random = np.random.default_rng(seed)
    centres = random.random((n, parts, 2))
    keypoints = centres.reshape(n, -1) @ weights + offset + noise * random.normal(size=(n, 2 * landmarks))
    return KeypointSamples(
        image=np.arange(n), centres=centres, active=random.random((n, parts)) >= inactive,
        keypoints=keypoints.reshape(n, landmarks, 2), visible=random.random((n, landmarks)) >= hidden)


def naive_box_nme(fit: KeypointSamples, test: KeypointSamples) -> float:
    """Protocol 11.4, step by step."""
    errors = []
    for landmark in range(fit.keypoints.shape[1]):
        chosen = [i for i in range(len(fit.image)) if fit.visible[i, landmark]]
        columns = np.array([fit.centres[i].flatten() for i in chosen])
        targets = np.array([fit.keypoints[i, landmark] for i in chosen])
        mean, deviation = columns.mean(0), columns.std(0)
        target_mean, target_deviation = targets.mean(0), targets.std(0)

        def features(split: KeypointSamples, i: int, mean=mean, deviation=deviation) -> np.ndarray:
            values = (split.centres[i].flatten() - mean) / deviation
            for part in range(split.centres.shape[1]):
                if not split.active[i, part]:
                    values[2 * part] = values[2 * part + 1] = 0
            return values

        design = np.array([features(fit, i) for i in chosen])
        weights = np.linalg.solve(design.T @ design, design.T @ ((targets - target_mean) / target_deviation))
        for i in range(len(test.image)):
            if test.visible[i, landmark]:
                predicted = features(test, i) @ weights * target_deviation + target_mean
                errors.append(np.hypot(*(predicted - test.keypoints[i, landmark])))
    return 100 * sum(errors) / len(errors)


def test_centres_are_the_means_of_the_soft_maps():
    similarity = torch.rand(2, 4, 3, 5, dtype=torch.float64).softmax(1)
    centres, _ = part_centres(similarity)
    for image in range(2):
        for part in range(3):
            mass = x = y = 0.0
            for row in range(3):
                for column in range(5):
                    weight = float(similarity[image, part, row, column])
                    mass, x, y = mass + weight, x + weight * column / 5, y + weight * row / 3
            assert centres[image, part].tolist() == pytest.approx([x / mass, y / mass])


def test_a_part_is_active_above_one_half():
    similarity = torch.tensor([0.5, 0.51, 0.0, 0.4]).view(1, 4, 1, 1)
    centres, active = part_centres(similarity)
    assert active.tolist() == [[False, True, False]]
    assert centres[0, 2].tolist() == [0.5, 0.5]  # no mass at all: the middle


@pytest.mark.parametrize("normaliser", ["box", "eyes"])
def test_a_linear_map_of_the_centres_has_no_error(normaliser):
    errors = keypoint_errors(samples(200, 0), samples(50, 1), normaliser)
    assert errors.shape == (50, 3)
    assert nme(errors) < 1e-10


def test_the_error_is_the_noise():
    errors = keypoint_errors(samples(20_000, 0, noise=0.05), samples(20_000, 1, noise=0.05), "box")
    rayleigh_mean = 0.05 * np.sqrt(np.pi / 2)
    assert nme(errors) == pytest.approx(100 * rayleigh_mean, rel=0.01)


def test_box_convention_equals_the_protocol_in_loops():
    fit = samples(120, 2, noise=0.1, hidden=0.3, inactive=0.4)
    test = samples(40, 3, noise=0.1, hidden=0.3, inactive=0.4)
    ours = keypoint_errors(fit, test, "box")
    assert nme(ours) == pytest.approx(naive_box_nme(fit, test), rel=1e-9)
    assert np.array_equal(np.isfinite(ours), test.visible)


def test_centres_of_inactive_parts_tell_nothing():
    fit, test = samples(300, 4, inactive=0.5), samples(30, 5, inactive=0.5)
    moved = test.centres.copy()
    moved[~test.active] += 1000
    elsewhere = KeypointSamples(test.image, moved, test.active, test.keypoints, test.visible)
    here, there = keypoint_errors(fit, test, "box"), keypoint_errors(fit, elsewhere, "box")
    assert np.array_equal(here, there, equal_nan=True)


def test_eyes_convention_divides_by_the_distance_of_the_first_two():
    fit, test = samples(300, 6, noise=0.1), samples(30, 7, noise=0.1)
    columns, targets = fit.centres.reshape(300, -1), fit.keypoints.reshape(300, -1)
    # Standardised without intercept is the same as ordinary least squares with one.
    weights = np.linalg.lstsq(np.c_[columns, np.ones(300)], targets, rcond=None)[0]
    predicted = (np.c_[test.centres.reshape(30, -1), np.ones(30)] @ weights).reshape(30, 3, 2)
    distance = np.linalg.norm(predicted - test.keypoints, axis=-1)
    eyes = np.linalg.norm(test.keypoints[:, 0] - test.keypoints[:, 1], axis=-1)
    assert keypoint_errors(fit, test, "eyes") == pytest.approx(distance / eyes[:, None], rel=1e-9)


def test_scale_and_shift_of_the_frame_do_not_matter_for_the_eyes():
    fit, test = samples(100, 8, noise=0.1), samples(20, 9, noise=0.1)
    larger = [KeypointSamples(s.image, 128 * s.centres + 3, s.active, 128 * s.keypoints + 3, s.visible)
              for s in (fit, test)]
    assert keypoint_errors(*larger, "eyes") == pytest.approx(keypoint_errors(fit, test, "eyes"), rel=1e-9)


def test_a_landmark_that_the_fit_split_never_shows_is_left_out():
    fit, test = samples(60, 10), samples(20, 11)
    fit.visible[:, 1] = False
    errors = keypoint_errors(fit, test, "box")
    assert np.isnan(errors[:, 1]).all()
    assert np.isfinite(errors[:, [0, 2]]).all()
    assert nme(errors) < 1e-9


def test_parts_that_never_move_and_fewer_images_than_unknowns():
    fit, test = samples(4, 12), samples(5, 13)
    fit.centres[:, 0] = 0.5
    assert np.isfinite(keypoint_errors(fit, test, "box")).all()
    assert np.isnan(nme(np.full((2, 3), np.nan)))


def test_samples_come_in_the_order_of_their_numbers():
    whole = samples(10, 14)
    single = [KeypointSample(int(i), whole.centres[i], whole.active[i], whole.keypoints[i], whole.visible[i])
              for i in whole.image]
    joined = KeypointSamples.of(single[1::2] + single[::2])
    for name in ("image", "centres", "active", "keypoints", "visible"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name))


def test_normaliser_follows_the_first_two_keypoints():
    assert normaliser_of(["lefteye", "righteye", "nose"]) == "eyes"
    assert normaliser_of(["back", "beak", "left eye", "right eye"]) == "box"
    assert normaliser_of(["left eye"]) == normaliser_of([]) == "box"
