"""Makes the bundled weights of src/mpae/assets from their fp16 originals, and measures what that costs.

    python scripts/make_assets.py WEIGHTS [--photos FOLDER]

WEIGHTS holds `vit_small_patch14_dinov2.safetensors` and `vgg19_features.safetensors`; assets/README.md says
where they are from. With --photos, features of 50 of its images are compared to those of the originals.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from mpae import assets
from mpae.assets import int8

# What is rounded here is not made good by any later layer, and it is small: it stays fp16.
KEEP = {
    assets.VIT_SMALL: ("cls_token", "pos_embed", "patch_embed.", "blocks.0."),
    assets.VGG19: ("features.0.", "features.2.", "features.5."),
}
LIMIT = 40_000_000  # bytes of both files together


def make(originals: Path) -> None:
    total = 0
    for target, keep in KEEP.items():
        source = original(originals, target)
        with safe_open(source, "pt") as file:
            origin = file.metadata()["origin"]
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        metadata = {"format": "pt", "origin": origin, "original_sha256": digest,
                    "made_by": "scripts/make_assets.py"}
        save_file(int8.pack(load_file(source), keep), target, metadata)
        target.chmod(0o644)
        size = target.stat().st_size
        total += size
        print(f"{target.name}: {size / 1e6:.1f} MB from {source.stat().st_size / 1e6:.1f} MB")
    if total > LIMIT:
        raise SystemExit(f"{total:,} bytes together; at most {LIMIT:,} are wanted.")


def measure(originals: Path, photos: Path, count: int = 50) -> None:
    from mpae.data.augment import make_view
    from mpae.data.images import read_picture

    files = sorted(photos.rglob("*.jpg"))
    files = files[:: max(1, len(files) // count)][:count]
    pixels = [torch.tensor(make_view(read_picture(file, file.name), 0, 224)) for file in files]
    images = torch.stack(pixels).permute(0, 3, 1, 2).float() / 255  # (B, 3, 224, 224)

    truth, ours = (vit_features(weights, images) for weights in
                   (load_file(original(originals, assets.VIT_SMALL)), assets.load_vit_small()))
    cosine = torch.cosine_similarity(truth, ours, dim=1).flatten()  # (B*N,)
    print(f"ViT-S/14, {len(cosine):,} patches of {len(files)} photos: cosine to fp16 {cosine.mean():.5f} on "
          f"average, {cosine.quantile(0.01):.5f} at the 1st percentile, {cosine.min():.5f} at worst")

    pairs = zip(vgg_features(load_file(original(originals, assets.VGG19)), images),
                vgg_features(assets.load_vgg19(), images), strict=True)
    errors = [f"{100 * ((ours - truth).norm() / truth.norm()).item():.2f} %" for truth, ours in pairs]
    print("VGG-19 relu1_1 to relu5_1, relative error:", ", ".join(errors))


def original(folder: Path, target: Path) -> Path:
    return folder / target.name.replace(".int8", "")


def vit_features(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    from mpae.backbones import create_vit
    from mpae.backbones.vit import FrozenViT
    from mpae.backbones.weights import load_weights

    model = create_vit("vit_small_patch14_dinov2.lvd142m", images.shape[-1])
    load_weights(model, weights, "the weights")
    backbone = FrozenViT(model, "ViT-S/14")
    return torch.cat([backbone(batch) for batch in images.split(10)])


@torch.no_grad()
def vgg_features(weights: dict[str, Tensor], images: Tensor) -> list[Tensor]:
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 3, 1, 1)
    out, features = (images - mean) / std, []
    for layer in (0, 2, "pool", 5, 7, "pool", 10, 12, 14, 16, "pool", 19, 21, 23, 25, "pool", 28):
        if layer == "pool":
            out = functional.max_pool2d(out, 2)
            continue
        weight, bias = (weights[f"features.{layer}.{kind}"].float() for kind in ("weight", "bias"))
        out = functional.conv2d(out, weight, bias, padding=1).relu()
        if layer in (0, 5, 10, 19, 28):
            features.append(out)
    return features


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--photos", type=Path)
    arguments = parser.parse_args()
    make(arguments.weights)
    if arguments.photos:
        measure(arguments.weights, arguments.photos)
