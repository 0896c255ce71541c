"""The paper's equations as plain loops over Python numbers (float64), to test the fast versions against.

Tensors come in with the shapes of the package: similarity (B, K+1, h, w) with the background last,
descriptors (B, K+1, C), features (B, C, h, w). Rows run over h, columns over w.
"""

from __future__ import annotations

import math

from torch import Tensor

Map = list[list[float]]


def pixel_loss(restored: Tensor, target: Tensor) -> float:
    """Eq. 3, first half, as a mean over all elements."""
    ours, theirs = restored.flatten().tolist(), target.flatten().tolist()
    return sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(ours)


def restoration_loss(restored: Tensor, target: Tensor, maps: list[Tensor], target_maps: list[Tensor],
                     pixel: float, perceptual: list[float]) -> float:
    """Eq. 3, with a weight for the pixels and one for each layer."""
    total = pixel * pixel_loss(restored, target)
    for weight, ours, theirs in zip(perceptual, maps, target_maps, strict=True):
        total += weight * pixel_loss(ours, theirs)
    return total


def three_by_three_means(grid: Map) -> Map:
    """Released reading: 3x3 average, stride 1, no padding; a grid smaller than 3 stays as it is."""
    h, w = len(grid), len(grid[0])
    if h < 3 or w < 3:
        return grid
    return [[sum(grid[i + a][j + b] for a in range(3) for b in range(3)) / 9 for j in range(w - 2)]
            for i in range(h - 2)]


def peak(grid: Map) -> float:
    return max(max(row) for row in grid)


def foreground_loss(similarity: Tensor, group_size: int, reading: str = "released") -> float:
    """Eq. 4."""
    images = similarity.tolist()
    num_parts = len(images[0]) - 1
    total, groups = 0.0, 0
    for start in range(0, len(images), group_size):
        group = images[start:start + group_size]
        peaks = [[peak(three_by_three_means(image[k]) if reading == "released" else image[k])
                  for k in range(num_parts)] for image in group]
        in_each_image = sum(max(image) for image in peaks) / len(group)
        of_each_part = sum(max(image[k] for image in peaks) for k in range(num_parts)) / num_parts
        total += 2 - in_each_image - of_each_part
        groups += 1
    return total / groups


def centre_distance(i: int, j: int, h: int, w: int) -> float:
    """Eq. 6 with 0-based row i and column j; an axis of one position counts as border."""
    x = j / (w - 1) if w > 1 else 0
    y = i / (h - 1) if h > 1 else 0
    return 2 * (x - 0.5) ** 2 + 2 * (y - 0.5) ** 2


def background_loss(similarity: Tensor, reading: str = "released") -> float:
    """Eq. 5."""
    images = similarity.tolist()
    total = 0.0
    for image in images:
        background = three_by_three_means(image[-1]) if reading == "released" else image[-1]
        h, w = len(background), len(background[0])
        best = max(centre_distance(i, j, h, w) * background[i][j] for i in range(h) for j in range(w))
        total -= max(math.log(best), -100) if best > 0 else -100
    return total / len(images)


def part_mean(part: Map, features: list[Map]) -> list[float]:
    """Eq. 8 for one part of one image."""
    cells = [(i, j) for i in range(len(part)) for j in range(len(part[0]))]
    area = sum(part[i][j] for i, j in cells)
    return [sum(part[i][j] * channel[i][j] for i, j in cells) / area for channel in features]


def cosine(a: list[float], b: list[float]) -> float:
    """Eq. 9."""
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def with_margin(cos: float, margin: float, reading: str) -> float:
    angle = math.acos(max(-1.0, min(1.0, cos)))
    if reading == "released" and angle >= math.pi - margin:
        return cos - margin * math.sin(math.pi - margin)
    return math.cos(angle + margin)


def semantic_loss(similarity: Tensor, descriptors: Tensor, features: Tensor, scale: float = 20.0,
                  margin: float = 0.5, reading: str = "released") -> float:
    """Eq. 7; parts that are absent (area at most 0.001) give no term."""
    total = 0.0
    batch, num_parts = similarity.shape[0], similarity.shape[1] - 1
    for parts, own, image in zip(similarity.tolist(), descriptors.tolist(), features.tolist(), strict=True):
        present = [sum(map(sum, parts[k])) > 1e-3 for k in range(num_parts)]
        means = [part_mean(parts[k], image) if present[k] else None for k in range(num_parts)]
        for k in range(num_parts):
            if not present[k]:
                continue
            rivals = 0.0
            for t in range(num_parts):
                if t == k:
                    continue
                if reading == "paper":  # descriptor k against the mean of every part present
                    rivals += math.exp(scale * cosine(means[t], own[k])) if present[t] else 0.0
                else:  # the mean of part k against every descriptor
                    rivals += math.exp(scale * cosine(means[k], own[t]))
            pair = math.exp(scale * with_margin(cosine(means[k], own[k]), margin, reading))
            total -= math.log(pair / (pair + rivals))
    return total / (batch * num_parts)


def variation_loss(similarity: Tensor) -> float:
    """Eq. 10, mean over images."""
    images = similarity.tolist()
    h, w = similarity.shape[2:]
    total = 0.0
    for image in images:
        for part in image:
            for i in range(h):
                for j in range(w):
                    total += abs(part[i + 1][j] - part[i][j]) if i + 1 < h else 0
                    total += abs(part[i][j + 1] - part[i][j]) if j + 1 < w else 0
    return total / (len(images) * h * w)


def entropy_loss(similarity: Tensor, reading: str = "released") -> float:
    """Eq. 11, mean over images."""
    batch, channels, h, w = similarity.shape
    total = 0.0
    for p in similarity.flatten().tolist():
        total -= p * math.log(p) if p > 0 else 0
    return total / batch / (channels if reading == "paper" else h * w)


def initial_parts_loss(similarity: Tensor, seeds: Tensor) -> float:
    """Cross-entropy between maps whose log probabilities were interpolated to twice the grid and made to sum to 1, mean
    over images and places."""
    total, count = 0.0, 0
    for ours, theirs in zip(similarity.log().tolist(), seeds.log().tolist(), strict=True):
        h, w = len(ours[0]), len(ours[0][0])
        for i in range(2 * h):
            for j in range(2 * w):
                row, column = min(max(i / 2 - 0.25, 0), h - 1), min(max(j / 2 - 0.25, 0), w - 1)
                p, q = ([math.exp(bilinear(part, row, column)) for part in maps] for maps in (ours, theirs))
                total -= sum(b / sum(q) * math.log(a / sum(p)) for a, b in zip(p, q, strict=True))
                count += 1
    return total / count


def bilinear(values: list[list[float]], row: float, column: float) -> float:
    """A map between its positions, which lie at whole rows and columns."""
    i, j = int(row), int(column)
    total = 0.0
    for y, down in ((i, 1 - (row - i)), (i + 1, row - i)):
        for x, across in ((j, 1 - (column - j)), (j + 1, column - j)):
            total += down * across * values[y][x] if down * across else 0.0
    return total


def border_prior(similarity: Tensor) -> float:
    """Mean over images and the outermost positions of the summed foreground."""
    h, w = similarity.shape[2:]
    values = [sum(part[i][j] for part in image[:-1]) for image in similarity.tolist()
              for i in range(h) for j in range(w) if i in (0, h - 1) or j in (0, w - 1)]
    return sum(values) / len(values)


def area_loss(similarity: Tensor, epsilon: float = 1.5, background: bool = False) -> float:
    """Table 6, Xia et al."""
    images = similarity.tolist()
    terms = [1 / (1 + sum(map(sum, part)) / epsilon) for image in images
             for part in (image if background else image[:-1])]
    return sum(terms) / len(images)


def batch_presence_loss(similarity: Tensor) -> float:
    """Table 6, PDiscoFormer."""
    images = similarity.tolist()
    num_parts = len(images[0]) - 1
    return 1 - sum(max(peak(three_by_three_means(image[k])) for image in images)
                   for k in range(num_parts)) / num_parts


def concentration_loss(similarity: Tensor) -> float:
    """Table 6, SCOPS: variance of the position in x and in y, positions -1, -1 + 2/n, ..."""
    images = similarity.tolist()
    h, w = similarity.shape[2:]
    cells = [(i, j, 2 * i / h - 1, 2 * j / w - 1) for i in range(h) for j in range(w)]
    total = 0.0
    for image in images:
        for part in image[:-1]:
            area = sum(part[i][j] for i, j, _, _ in cells) + 1e-8
            y0 = sum(part[i][j] / area * y for i, j, y, _ in cells)
            x0 = sum(part[i][j] / area * x for i, j, _, x in cells)
            total += sum(part[i][j] / area * ((y - y0) ** 2 + (x - x0) ** 2) for i, j, y, x in cells)
    return total / len(images)
