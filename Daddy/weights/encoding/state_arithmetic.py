"""Pure: arithmetic on state dicts. One of the few files of this package that import torch.

Deterministic: float64 sums in the order given, on the CPU, so that two mergers with equal inputs
write equal bytes. Floating tensors move; anything else (counters) takes the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

StateDict = dict[str, torch.Tensor]
"""Tensors on the CPU, contiguous, float32 unless an integer counter."""


def add_scaled(base: StateDict, deltas: Sequence[StateDict], factors: Sequence[float]) -> StateDict:
    """Base + sum of factor x delta, added up in float64 in the order given, stored as base is."""
    return {name: _add_scaled_tensor(name, one, deltas, factors) for name, one in base.items()}


def _add_scaled_tensor(
    name: str, base: torch.Tensor, deltas: Sequence[StateDict], factors: Sequence[float]
) -> torch.Tensor:
    if not base.is_floating_point():
        return _largest(name, base, deltas)
    total = base.to(torch.float64, copy=True)
    for delta, factor in zip(deltas, factors, strict=True):
        total.add_(delta[name].to(torch.float64), alpha=factor)
    return total.to(base.dtype)


def _largest(name: str, base: torch.Tensor, deltas: Sequence[StateDict]) -> torch.Tensor:
    moved = base.clone()
    for delta in deltas:
        torch.maximum(moved, base + delta[name], out=moved)
    return moved


def difference(after: StateDict, before: StateDict) -> StateDict:
    """After - before, tensor by tensor (counters too)."""
    return {name: one - before[name] for name, one in after.items()}


def add_deltas(base: StateDict, *deltas: StateDict) -> StateDict:
    """Base + every delta in full: rebasing own progress on a new version."""
    return add_scaled(base, deltas, [1.0] * len(deltas))


def copy_state(state: StateDict) -> StateDict:
    """A private copy, on the CPU and contiguous."""
    return {name: one.detach().to("cpu", copy=True).contiguous() for name, one in state.items()}


def norm(state: StateDict) -> float:
    """Euclidean norm over all floating tensors; NaN when any value is not finite."""
    squares = sum(
        float(one.to(torch.float64).square().sum())
        for one in state.values()
        if one.is_floating_point()
    )
    return math.sqrt(squares) if math.isfinite(squares) else math.nan


def is_finite(state: StateDict) -> bool:
    """Whether every floating value is finite."""
    return math.isfinite(norm(state))
