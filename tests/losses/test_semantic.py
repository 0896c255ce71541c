import naive
import pytest
import torch

from mpae.losses.semantic import part_means, semantic_loss, with_margin

READINGS = ["released", "paper"]
SHAPES = [(2, 3, 4, 4, 5), (3, 6, 8, 3, 2), (1, 4, 5, 1, 1), (2, 2, 3, 4, 4)]  # B, K+1, C, h, w


def random_inputs(b: int, k: int, c: int, h: int, w: int, sharpness: float = 2.0) -> tuple[torch.Tensor, ...]:
    similarity = (sharpness * torch.randn(b, k, h, w, dtype=torch.float64)).softmax(1)
    descriptors = torch.randn(b, k, c, dtype=torch.float64)
    return similarity, descriptors, torch.randn(b, c, h, w, dtype=torch.float64)


def without_part(similarity: torch.Tensor, part: int) -> torch.Tensor:
    """The same maps with one part far below the threshold of presence, but not 0."""
    similarity = similarity.clone()
    similarity[:, -1] += (1 - 1e-7) * similarity[:, part]
    similarity[:, part] *= 1e-7
    return similarity


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("scale", "margin"), [(20.0, 0.5), (5.0, 1.2), (1.0, 0.0)])
def test_semantic_loss_is_eq_7(shape, scale, margin, reading):
    inputs = random_inputs(*shape)
    expected = naive.semantic_loss(*inputs, scale, margin, reading)
    loss = semantic_loss(*inputs, scale, margin, reading).item()
    assert loss == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("part", [0, 2])
def test_semantic_loss_is_eq_7_with_an_absent_part(part, reading):
    similarity, descriptors, features = random_inputs(2, 5, 6, 3, 4)
    similarity[1] = without_part(similarity[1:], part)[0]
    expected = naive.semantic_loss(similarity, descriptors, features, reading=reading)
    assert semantic_loss(similarity, descriptors, features, reading=reading).item() == pytest.approx(expected)


def test_readings_differ():
    inputs = random_inputs(2, 5, 6, 3, 4)
    paper, released = semantic_loss(*inputs, reading="paper"), semantic_loss(*inputs, reading="released")
    assert paper.item() != pytest.approx(released.item(), rel=1e-3)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("angle", [0.1, 1.0, 2.0, 2.6, 2.7, 3.0])
def test_margin(angle, reading):
    cosine = torch.tensor(angle, dtype=torch.float64).cos()
    expected = naive.with_margin(cosine.item(), 0.5, reading)
    assert with_margin(cosine, 0.5, reading).item() == pytest.approx(expected)


def test_released_margin_never_rises_with_the_angle():
    angles = torch.linspace(0.01, 3.13, 500, dtype=torch.float64)
    assert (with_margin(angles.cos(), 0.5, "released").diff() < 0).all()
    assert (with_margin(angles.cos(), 0.5, "paper").diff() > 0).any()


def test_part_means_are_eq_8():
    similarity, _, features = random_inputs(2, 4, 3, 2, 5)
    means = part_means(similarity, features)
    assert means.shape == (2, 3, 3)
    for b in range(2):
        for k in range(3):
            expected = naive.part_mean(similarity[b, k].tolist(), features[b].tolist())
            assert means[b, k].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("reading", READINGS)
def test_gradcheck(reading):
    inputs = tuple(x.requires_grad_() for x in random_inputs(2, 4, 3, 2, 3))
    assert torch.autograd.gradcheck(lambda *x: semantic_loss(*x, reading=reading), inputs)


def gradients(part: int, reading: str) -> tuple[torch.Tensor, torch.Tensor]:
    similarity, descriptors, features = random_inputs(2, 5, 6, 3, 4)
    similarity = without_part(similarity, part).requires_grad_()
    descriptors.requires_grad_()
    semantic_loss(similarity, descriptors, features, reading=reading).backward()
    return similarity.grad, descriptors.grad


def test_absent_part_gets_no_gradient_in_the_paper_reading():
    similarity, descriptors = gradients(1, "paper")
    assert (similarity[:, 1] == 0).all()
    assert (descriptors[:, 1] == 0).all()
    assert (similarity[:, 0] != 0).all()
    assert (descriptors[:, 0] != 0).any()


def test_absent_part_competes_by_its_descriptor_in_the_released_reading():
    similarity, descriptors = gradients(1, "released")
    assert (similarity[:, 1] == 0).all()
    assert (descriptors[:, 1] != 0).any()


@pytest.mark.parametrize("reading", READINGS)
def test_background_has_no_say(reading):
    similarity, descriptors, features = (x.requires_grad_() for x in random_inputs(2, 4, 5, 3, 3))
    semantic_loss(similarity, descriptors, features, reading=reading).backward()
    assert (similarity.grad[:, -1] == 0).all()
    assert (descriptors.grad[:, -1] == 0).all()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    "case", ["nothing but background", "parallel", "opposite", "zero descriptors", "one part"])
def test_finite_value_and_gradient(case, reading):
    similarity, descriptors, features = (x.float() for x in random_inputs(2, 4, 5, 3, 3))
    if case == "nothing but background":
        similarity = torch.zeros_like(similarity)
        similarity[:, -1] = 1
    elif case in ("parallel", "opposite"):
        features = torch.ones_like(features)
        descriptors = torch.full_like(descriptors, 1 if case == "parallel" else -1)
    elif case == "zero descriptors":
        descriptors = torch.zeros_like(descriptors)
    else:
        similarity, descriptors = similarity[:, :2], descriptors[:, :2]
    inputs = [x.clone().requires_grad_() for x in (similarity, descriptors, features)]
    loss = semantic_loss(*inputs, reading=reading)
    loss.backward()
    assert loss.isfinite()
    assert all(x.grad.isfinite().all() for x in inputs)
    if case == "nothing but background":
        assert loss.item() == 0


@pytest.mark.parametrize("reading", READINGS)
def test_order_of_parts_does_not_matter(reading):
    similarity, descriptors, features = random_inputs(2, 5, 6, 3, 3)
    order = [2, 0, 3, 1, 4]
    permuted = semantic_loss(similarity[:, order], descriptors[:, order], features, reading=reading)
    torch.testing.assert_close(permuted, semantic_loss(similarity, descriptors, features, reading=reading))


@pytest.mark.parametrize("reading", READINGS)
def test_loss_of_a_batch_is_the_mean_over_images(reading):
    inputs = random_inputs(3, 4, 5, 3, 3)
    each = [semantic_loss(*(x[b:b + 1] for x in inputs), reading=reading) for b in range(3)]
    torch.testing.assert_close(semantic_loss(*inputs, reading=reading), torch.stack(each).mean())


@pytest.mark.parametrize("reading", READINGS)
def test_paper_sized_input_needs_no_giant_tensor(reading):
    """B = 16, C = 256, K = 50 on 32 x 32: a (B, C, K+1, h, w) tensor would be 0.86 GB each way."""
    largest = 0

    def remember(saved: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, saved.numel())
        return saved

    similarity = torch.randn(16, 51, 32, 32).softmax(1).requires_grad_()
    descriptors = torch.randn(16, 51, 256, requires_grad=True)
    features = torch.randn(16, 256, 32, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(remember, lambda saved: saved):
        semantic_loss(similarity, descriptors, features, reading=reading).backward()
    assert largest <= features.numel()
