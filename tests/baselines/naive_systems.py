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


# -- SCOPS


def floored_concentration_loss(similarity: Tensor) -> float:
    B, K, h, w = similarity[:, :-1].shape
    total = 0.0
    for image in similarity.tolist():
        for grid in image[:K]:
            grid = [[value + 1e-3 for value in row] for row in grid]
            mass = sum(map(sum, grid))
            x = sum(grid[i][j] / mass * (2 * j / w - 1) for i in range(h) for j in range(w))
            y = sum(grid[i][j] / mass * (2 * i / h - 1) for i in range(h) for j in range(w))
            total += sum(grid[i][j] / mass * ((2 * j / w - 1 - x) ** 2 + (2 * i / h - 1 - y) ** 2)
                         for i in range(h) for j in range(w))
    return total / B / B


def divergence(target: list[float], prediction: list[float]) -> float:
    return sum(t * (math.log(t) - math.log(p)) for t, p in zip(target, prediction, strict=True))


def basis_loss(similarity: Tensor, basis: Tensor, features: Tensor) -> float:
    B, E, h, w = features.shape
    total = 0.0
    for b in range(B):
        for i in range(h):
            for j in range(w):
                for e in range(E):
                    mixed = sum(float(similarity[b, k, i, j] * basis[k, e]) for k in range(len(basis)))
                    total += (mixed - float(features[b, e, i, j])) ** 2
    return total / (B * E * h * w)


def orthonormality_loss(basis: Tensor) -> float:
    rows = [unit(row) for row in basis.tolist()]
    return sum((dot(left, right) - (a == b)) ** 2 for a, left in enumerate(rows) for b, right in enumerate(rows))


# -- dual alignment


def identity_loss(descriptors: Tensor, identities: Tensor, scale: float = 20.0, margin: float = 0.5) -> float:
    total, count = 0.0, 0
    directions = [unit(row) for row in identities.tolist()]
    for image in descriptors.tolist():
        for k, descriptor in enumerate(image):
            cosines = [dot(unit(descriptor), direction) for direction in directions]
            angle = math.acos(max(-1.0, min(1.0, cosines[k])))
            own = math.cos(angle + margin) if angle < math.pi - margin else \
                cosines[k] - margin * math.sin(math.pi - margin)
            powers = [math.exp(scale * (own if c == k else cosine)) for c, cosine in enumerate(cosines)]
            total -= math.log(powers[k] / sum(powers))
            count += 1
    return total / count


# -- contrastive reconstruction


def masked_means(parts: Tensor, mask: Tensor, features: Tensor) -> list:
    B, K, h, w = parts.shape
    found = []
    for b in range(B):
        rows = []
        for k in range(K):
            weights = [[float(parts[b, k, i, j] * mask[b, 0, i, j]) for j in range(w)] for i in range(h)]
            mass = sum(map(sum, weights)) + 1e-5
            rows.append([sum(weights[i][j] * float(features[b, e, i, j]) for i in range(h) for j in range(w)) / mass
                         for e in range(features.shape[1])])
        found.append(rows)
    return found


def consistency_loss(parts: Tensor, mask: Tensor, features: Tensor) -> float:
    B, K, h, w = parts.shape
    means, total = masked_means(parts, mask, features), 0.0
    for b in range(B):
        inner = 0.0
        for k in range(K):
            for i in range(h):
                for j in range(w):
                    away = sum((float(features[b, e, i, j]) - means[b][k][e]) ** 2 for e in range(features.shape[1]))
                    inner += float(parts[b, k, i, j] * mask[b, 0, i, j] ** 2) * away
        total += inner / (float(mask[b].sum()) + 1e-5)
    return total / B


def contrast_loss(means: Tensor, partner: list[int], temperature: float = 0.19) -> float:
    rows = [[unit(vector) for vector in image] for image in means.tolist()]
    total, count = 0.0, 0
    for b, image in enumerate(rows):
        for k, vector in enumerate(image):
            positive = math.exp(dot(vector, rows[partner[b]][k]) / temperature)
            negative = sum(math.exp(dot(vector, other[c]) / temperature)
                           for other in rows for c in range(len(other)) if c != k)
            total -= math.log(positive / (positive + negative))
            count += 1
    return total / count


# -- region grouping


def region_vectors(regions: Tensor, features: Tensor, centres: Tensor, smoothing: Tensor) -> list:
    B, n, h, w = regions.shape
    found = []
    for b in range(B):
        rows = []
        for k in range(n):
            mass = max(float(regions[b, k].sum()), 1e-5)
            mean = [sum(float(regions[b, k, i, j] * features[b, c, i, j]) for i in range(h) for j in range(w)) / mass
                    for c in range(features.shape[1])]
            rows.append(unit([(value - float(centres[k, c])) / math.sqrt(float(smoothing[k]) / 2)
                              for c, value in enumerate(mean)]))
        found.append(rows)
    return found


def occurrence_loss(regions: Tensor, prior: list[float]) -> float:
    """With the Gaussian of radius 2 and deviation 0.4 written out."""
    B, n, h, w = regions.shape
    line = [math.exp(-(offset**2) / (2 * 0.4**2)) for offset in range(-2, 3)]
    whole = sum(a * b for a in line for b in line)
    total = 0.0
    for k in range(n):
        peaks = []
        for image in regions.tolist():
            grid = image[k]
            peaks.append(max(sum(line[y] * line[x] / whole * grid[i + y][j + x] for y in range(5) for x in range(5))
                             for i in range(h - 4) for j in range(w - 4)))
        for t, wanted in zip(sorted(peaks), prior, strict=True):
            total += abs(math.log(t + 1e-5) - math.log(wanted + 1e-5))
    return total / (B * n)


# -- dense CRF


def dense_crf(costs: Tensor, image: Tensor, scale: float, iterations: int) -> list:
    """Every pixel against every other within two deviations along each axis."""
    n, h, w = costs.shape
    pixels = [(i, j) for i in range(h) for j in range(w)]
    kernels = []
    for weight, deviation, colour in ((50.0, 3.0 * scale, None), (15.0, 5.0 * scale, 13.0)):
        radius = max(1, round(2 * deviation))
        kernel = {}
        for i, j in pixels:
            for y, x in pixels:
                if (i, j) != (y, x) and abs(i - y) <= radius and abs(j - x) <= radius:
                    power = ((i - y) ** 2 + (j - x) ** 2) / (2 * deviation**2)
                    if colour is not None:
                        power += float((image[:, i, j] - image[:, y, x]).square().sum()) / (2 * colour**2)
                    kernel[(i, j), (y, x)] = math.exp(-power)
        sums = {pixel: sum(value for (here, _), value in kernel.items() if here == pixel) for pixel in pixels}
        kernels.append((weight, {pair: value / math.sqrt(sums[pair[0]] * sums[pair[1]])
                                 for pair, value in kernel.items()}))
    shares = (-costs).softmax(dim=0).tolist()
    for _ in range(iterations):
        energy = [[[-float(costs[k, i, j]) for j in range(w)] for i in range(h)] for k in range(n)]
        for weight, kernel in kernels:
            for ((i, j), (y, x)), value in kernel.items():
                for k in range(n):
                    energy[k][i][j] += weight * value * shares[k][y][x]
        for i, j in pixels:
            highest = max(energy[k][i][j] for k in range(n))
            powers = [math.exp(energy[k][i][j] - highest) for k in range(n)]
            for k in range(n):
                shares[k][i][j] = powers[k] / sum(powers)
    return shares


# -- GANSeg


def keypoint_concentration_loss(masks: Tensor, keypoints: Tensor) -> float:
    B, K, s, _ = masks[:, :-1].shape
    total = 0.0
    for b in range(B):
        for k in range(K):
            mass = float(masks[b, k].sum()) + 1e-6
            for i in range(s):
                for j in range(s):
                    x, y = (j + 0.5) * 2 / s - 1, (i + 0.5) * 2 / s - 1
                    away = (x - float(keypoints[b, k, 0])) ** 2 + (y - float(keypoints[b, k, 1])) ** 2
                    total += float(masks[b, k, i, j]) / mass * away
    return total / (B * K)


def least_area_loss(masks: Tensor, sizes: Tensor) -> float:
    B, K, s, _ = masks[:, :-1].shape
    return sum(max(0.0, math.pi * (float(sizes[b, k]) * s / 2) ** 2 - float(masks[b, k].sum()))
               for b in range(B) for k in range(K)) / B


def segmenter_loss(logits: Tensor, masks: Tensor) -> float:
    B, n, h, w = masks.shape
    shares = logits.softmax(dim=1)
    entropy = -sum(float(masks[b, k, i, j]) * math.log(float(shares[b, k, i, j]))
                   for b in range(B) for k in range(n) for i in range(h) for j in range(w)) / (B * h * w)
    dice = [2 * float((shares[:, k] * masks[:, k]).sum()) / (float(shares[:, k].sum() + masks[:, k].sum()) + 1e-6)
            for k in range(n)]
    return 0.5 * entropy + 0.5 * (1 - sum(dice) / n)
