"""`torch.hub.load("OWNER/mpae", "parts", "birds")`: a trained model without an install of mpae; its dependencies are.

With a checkout: `torch.hub.load("path/to/mpae", "parts", "birds", source="local")`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

dependencies = ["torch", "timm", "safetensors", "sklearn", "pydantic", "yaml", "PIL", "platformdirs"]

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))


def parts(run: str = "birds", device: str = "auto") -> Any:
    """A fitted `mpae.PartDiscovery`: a run that comes with mpae, a run folder, or ``hf://user/name``."""
    from mpae import PartDiscovery

    return PartDiscovery.load(run, device=device)
