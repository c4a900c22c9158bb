"""Pure: a delta as int8 with a float16 scale per block of 1,024, for a home's uplink (torch).

A block's scale is its largest value over 127, rounded up, so no value is wrong by more than half a
scale; the sender adds what was dropped to its next delta. A scale counts in units of a power of two
per tensor, since a small learning rate's scales would all be denormal in float16. What comes out is
exact in float32: sender and receiver have the same bits.
"""

from __future__ import annotations

import math

import torch
from safetensors.torch import save

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.delta_frames import pack_state, unpack_state
from Daddy.weights.encoding.state_arithmetic import StateDict, is_finite
from Daddy.weights.encoding.state_codec import decode, load_tensors
from Daddy.weights.encoding.tensor_layout import (
    BLOCK,
    INT8,
    PLAIN,
    damaged_error,
    refuse_unless_quantised,
)

LARGEST = 127
SMALLEST_UNIT = -100
"""As a power of two: of less the products would be denormal in float32."""

_FLOAT32_MAX = torch.finfo(torch.float32).max


def quantise(delta: StateDict) -> bytes:
    """``delta`` as a frame of int8; WeightsError when it holds a value that is not finite."""
    if not is_finite(delta):
        raise WeightsError("a delta that is not finite cannot be sent", "drop it")
    found: StateDict = {}
    for name, one in delta.items():
        if one.is_floating_point():
            found[f"q.{name}"], found[f"s.{name}"], found[f"u.{name}"] = _quantised(one)
        else:
            found[f"i.{name}"] = one.contiguous()
    return pack_state(bytes(save(found)))


def _quantised(one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, scales and their unit."""
    blocks = _blocks(one.to(torch.float64))
    peaks = blocks.abs().amax(1) / LARGEST
    unit = _unit(float(peaks.max()) if len(peaks) else 0.0)
    scales = _rounded_up(peaks / unit)
    steps = (scales.to(torch.float64) * unit).unsqueeze(1)
    whole = torch.where(steps > 0.0, blocks / steps, 0.0).round()
    values = whole.to(torch.int8).flatten()[: one.numel()].reshape(one.shape)
    return values.contiguous(), scales, torch.tensor([unit], dtype=torch.float32)


def _blocks(one: torch.Tensor) -> torch.Tensor:
    """The numbers in rows of a block each, the last filled up with zeros."""
    missing = -one.numel() % BLOCK
    return torch.nn.functional.pad(one.flatten(), (0, missing)).view(-1, BLOCK)


def _unit(peak: float) -> float:
    """The power of two in which the largest scale lies between a half and one."""
    return float(2.0 ** max(SMALLEST_UNIT, math.frexp(peak)[1]))


def _rounded_up(scales: torch.Tensor) -> torch.Tensor:
    """The smallest float16 that are not below ``scales`` (positive or zero)."""
    near = scales.to(torch.float16)
    short = near.to(torch.float64) < scales
    return (near.view(torch.int16) + short.to(torch.int16)).view(torch.float16)


def decode_delta(data: bytes, form: str, schema: str) -> StateDict:
    """The delta in ``data``, floating tensors as float32, from whichever ``form`` it was sent in.

    WeightsError when it is damaged, is not of ``schema`` or has a form that we do not know. Nothing
    is allocated beyond what the schema comes to.
    """
    if form == PLAIN:
        return decode(data, schema)
    if form != INT8:
        raise WeightsError(f"{form!r} is no form of a delta", "use the run's own release")
    found = load_tensors(unpack_state(data, lambda layout: refuse_unless_quantised(layout, schema)))
    return {name[2:]: _restored(name[2:], found) for name in found if name[:2] in ("q.", "i.")}


def _restored(name: str, found: StateDict) -> torch.Tensor:
    if f"i.{name}" in found:
        return found[f"i.{name}"]
    values, scales, unit = found[f"q.{name}"], found[f"s.{name}"], found[f"u.{name}"]
    if not bool(((scales >= 0) & scales.isfinite()).all() and (unit > 0).all() and unit.isfinite()):
        raise damaged_error(f"a scale of {name[:80]!r} is no positive number")
    rows = _blocks(values.to(torch.float64)) * (scales.to(torch.float64) * unit).unsqueeze(1)
    rows.clamp_(-_FLOAT32_MAX, _FLOAT32_MAX)  # a scale that was rounded up may lead beyond
    return rows.flatten()[: values.numel()].reshape(values.shape).to(torch.float32)
