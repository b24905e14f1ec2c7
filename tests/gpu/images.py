"""Synthetic images of MNIST's shape, since a machine with a GPU may have no internet access."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.lab import Lab


def images(lab: Lab) -> Path:
    """Return a file for `image_rows`, made once per lab; each class has its own bright rows."""
    path = lab.scratch / "images.npz"
    if not path.exists():
        draw = np.random.default_rng(0)
        arrays: dict[str, Any] = {}
        for part, count in (("train", lab.sizes.images), ("test", max(10, lab.sizes.images // 3))):
            labels = np.concatenate([np.arange(10), draw.integers(0, 10, count - 10)])
            pixels = draw.integers(0, 128, (count, 28, 28))
            pixels[np.arange(count), 2 * labels + 4] += 127
            arrays |= {f"x_{part}": pixels.astype("uint8"), f"y_{part}": labels.astype("uint8")}
        unfinished = path.with_name(f"unfinished-{threading.get_ident()}.npz")
        np.savez(unfinished, **arrays)
        unfinished.replace(path)
    return path
