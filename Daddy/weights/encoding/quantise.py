"""Pure. Quantises a delta to int8 with a float16 scale per block of 1,024 numbers (torch).

Made for a home's slow uplink. A block's scale is its largest value over 127, rounded up, so no
value is wrong by more than half a scale; the sender adds the rounding error to its next delta. A
scale counts in units of a power of two per tensor, since at a small learning rate all scales would
be denormal in float16. Decoded values are exact in float32: sender and receiver have the same bits.
"""

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
"""Exponent of two; with a smaller unit the products would be denormal in float32."""

_FLOAT32_MAX = torch.finfo(torch.float32).max


def quantise(delta: StateDict) -> bytes:
    """Return ``delta`` as a frame of int8 numbers and scales; WeightsError if not finite."""
    if not is_finite(delta):
        raise WeightsError("the delta holds values that are not finite", "drop the delta")
    tensors: StateDict = {}
    for name, tensor in delta.items():
        if tensor.is_floating_point():
            tensors[f"q.{name}"], tensors[f"s.{name}"], tensors[f"u.{name}"] = _quantised(tensor)
        else:
            tensors[f"i.{name}"] = tensor.contiguous()
    return pack_state(bytes(save(tensors)))


def _quantised(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    blocks = _blocks(tensor.to(torch.float64))
    peaks = blocks.abs().amax(1) / LARGEST
    unit = _unit(float(peaks.max()) if len(peaks) else 0.0)
    scales = _rounded_up(peaks / unit)
    steps = (scales.to(torch.float64) * unit).unsqueeze(1)
    rounded = torch.where(steps > 0.0, blocks / steps, 0.0).round()
    values = rounded.to(torch.int8).flatten()[: tensor.numel()].reshape(tensor.shape)
    return values.contiguous(), scales, torch.tensor([unit], dtype=torch.float32)


def _blocks(tensor: torch.Tensor) -> torch.Tensor:
    """Reshape a tensor to rows of ``BLOCK`` numbers, the last row filled up with zeros."""
    missing = -tensor.numel() % BLOCK
    return torch.nn.functional.pad(tensor.flatten(), (0, missing)).view(-1, BLOCK)


def _unit(peak: float) -> float:
    """Return the power of two p, at least 2^-100, for which ``peak`` / p lies between 0.5 and 1."""
    return float(2.0 ** max(SMALLEST_UNIT, math.frexp(peak)[1]))


def _rounded_up(scales: torch.Tensor) -> torch.Tensor:
    """Round each scale (positive or zero) up to the next float16."""
    near = scales.to(torch.float16)
    short = near.to(torch.float64) < scales
    return (near.view(torch.int16) + short.to(torch.int16)).view(torch.float16)


def decode_delta(data: bytes, form: str, schema: str) -> StateDict:
    """Decode the delta in ``data``, encoded in ``form``; floating tensors become float32. Raise
    WeightsError when ``data`` is damaged or not of ``schema``, or ``form`` is unknown. Nothing
    larger than the schema's tensors is allocated.
    """
    if form == PLAIN:
        return decode(data, schema)
    if form != INT8:
        raise WeightsError(f"the delta's encoding {form!r} is unknown", "use the run's own release")
    parts = load_tensors(unpack_state(data, lambda layout: refuse_unless_quantised(layout, schema)))
    return {name[2:]: _restored(name[2:], parts) for name in parts if name[:2] in ("q.", "i.")}


def _restored(name: str, tensors: StateDict) -> torch.Tensor:
    if f"i.{name}" in tensors:
        return tensors[f"i.{name}"]
    values, scales, unit = tensors[f"q.{name}"], tensors[f"s.{name}"], tensors[f"u.{name}"]
    if not bool(((scales >= 0) & scales.isfinite()).all() and (unit > 0).all() and unit.isfinite()):
        raise damaged_error(f"a scale of {name[:80]!r} is no positive number")
    rows = _blocks(values.to(torch.float64)) * (scales.to(torch.float64) * unit).unsqueeze(1)
    rows.clamp_(-_FLOAT32_MAX, _FLOAT32_MAX)  # a scale rounded up may exceed float32
    return rows.flatten()[: values.numel()].reshape(values.shape).to(torch.float32)
