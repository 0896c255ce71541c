"""Losses of the comparison systems as plain loops over Python numbers, to test the fast versions against."""

from __future__ import annotations

import math

from torch import Tensor


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def prototype_logits(features: Tensor, prototypes: Tensor) -> list:
    B, E, h, w = features.shape
    return [[[[-sum((float(features[b, e, i, j]) - float(prototype[e])) ** 2 for e in range(E)) for j in range(w)]
              for i in range(h)] for prototype in prototypes] for b in range(B)]


def part_vectors(similarity: Tensor, features: Tensor) -> list:
    B, K, h, w = similarity.shape
    return [[[sum(float(similarity[b, k, i, j] * features[b, e, i, j]) for i in range(h) for j in range(w)) / (h * w)
              for e in range(features.shape[1])] for k in range(K)] for b in range(B)]


def orthogonality_loss(vectors: Tensor) -> float:
    total, count = 0.0, 0
    for image in vectors.tolist():
        rows = [unit(row) for row in image]
        for a, left in enumerate(rows):
            for b, right in enumerate(rows):
                total += (dot(left, right) - (a == b)) ** 2
                count += 1
    return total / count


def cropped_presence_loss(similarity: Tensor, crop: int = 2) -> float:
    B, K, h, w = similarity.shape
    values = similarity.tolist()
    peaks = []
    for k in range(K):
        best = 0.0
        for b in range(B):
            for i in range(crop, h - crop - 2):
                for j in range(crop, w - crop - 2):
                    best = max(best, sum(values[b][k][i + y][j + x] for y in range(3) for x in range(3)) / 9)
        peaks.append(best)
    return 1 - sum(peaks) / K


def weighted_concentration_loss(similarity: Tensor) -> float:
    B, K, h, w = similarity[:, :-1].shape
    values, total = similarity.tolist(), 0.0
    for b in range(B):
        for k in range(K):
            grid = values[b][k]
            mass = sum(map(sum, grid))
            row = sum(i * grid[i][j] for i in range(h) for j in range(w)) / mass
            column = sum(j * grid[i][j] for i in range(h) for j in range(w)) / mass
            total += sum(grid[i][j] * (((row - i) / w) ** 2 + ((column - j) / h) ** 2)
                         for i in range(h) for j in range(w))
    return total / (B * K * h * w)


def equivariance_loss(similarity: Tensor, other: Tensor, shift: int) -> float:
    """The other view shows column j + shift of this one in its column j; what lies outside does not count."""
    B, K, h, w = similarity[:, :-1].shape
    total = 0.0
    for b in range(B):
        for k in range(K):
            pairs = [(float(similarity[b, k, i, j + shift]), float(other[b, k, i, j]))
                     for i in range(h) for j in range(w) if 0 <= j + shift < w]
            left, right = [a for a, _ in pairs], [c for _, c in pairs]
            total += dot(unit(left), unit(right))
    return 1 - total / (B * K)


def centroid(grid: list[list[float]]) -> tuple[float, float]:
    """x and y of the centre of mass, in [-1, 1]."""
    h, w = len(grid), len(grid[0])
    mass = sum(map(sum, grid))
    x = sum(grid[i][j] * ((j + 0.5) * 2 / w - 1) for i in range(h) for j in range(w)) / mass
    y = sum(grid[i][j] * ((i + 0.5) * 2 / h - 1) for i in range(h) for j in range(w)) / mass
    return x, y
