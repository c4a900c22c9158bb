"""The process-wide generators of torch, numpy and Python: seeded together, kept together.

The learner draws from generators of its own; these are kept because a library that draws from the
global ones must not spoil an exact resume.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed all three."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is the point
    random.seed(seed)


def tensors() -> dict[str, torch.Tensor]:
    """The generators' large parts."""
    found = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    keys: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    found["numpy"] = torch.from_numpy(keys[1].astype(np.int64))
    found["python"] = torch.tensor(random.getstate()[1], dtype=torch.int64)
    return found


def facts() -> dict[str, Any]:
    """The generators' small parts, as JSON."""
    state: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    version, _, gauss = random.getstate()
    return {"numpy": [state[0], *state[2:]], "python": [version, gauss]}


def restore(stored: Mapping[str, torch.Tensor], small: Mapping[str, Any]) -> None:
    """Go on as when `tensors` and `facts` were taken."""
    torch.set_rng_state(stored["torch"])
    if "cuda" in stored and torch.cuda.is_available():
        torch.cuda.set_rng_state(stored["cuda"])
    name, *rest = small["numpy"]
    np.random.set_state((name, stored["numpy"].numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, gauss = small["python"]
    random.setstate((version, tuple(stored["python"].tolist()), gauss))
