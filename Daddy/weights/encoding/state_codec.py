"""State dicts to safetensors bytes and back; one of the files that know torch.

Bytes are parsed from memory, after their hash was checked by the caller: a file is never mapped (a
truncation under a mapping kills the reader) and nothing is ever unpickled. Equal states have equal
bytes. Floating tensors are float32 in memory; on the wire they may be bfloat16, half the size.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.tensor_layout import (
    damaged_error,
    refuse_other_schema,
    schema_of_bytes,
    schema_of_rows,
)


def encode(
    state: StateDict, *, half: bool = False, metadata: Mapping[str, str] | None = None
) -> bytes:
    """``state`` as safetensors bytes, float32 or, if ``half``, bfloat16; integers as they are.

    ``metadata`` stands in the header. Equal bytes need one key at most: the library orders none.
    """
    wire = torch.bfloat16 if half else torch.float32
    ready = {name: _ready(one, wire) for name, one in sorted(state.items())}
    return bytes(save(ready, metadata=dict(metadata) if metadata else None))


def _ready(one: torch.Tensor, wire: torch.dtype) -> torch.Tensor:
    cast = one.detach().cpu().to(wire) if one.is_floating_point() else one.detach().cpu()
    return cast.clone(memory_format=torch.contiguous_format)


def decode(data: bytes, schema: str = "") -> StateDict:
    """The state in ``data``, floating tensors as float32.

    WeightsError when it is no safetensors, or when ``schema`` is given and is not its schema hash.
    """
    found = schema_of_bytes(data)
    if schema:
        refuse_other_schema(found, schema)
    state = load_tensors(data)
    return {name: one.float() if one.is_floating_point() else one for name, one in state.items()}


def load_tensors(data: bytes) -> StateDict:
    """The tensors in ``data`` as they are; WeightsError when it is no safetensors."""
    try:
        return load(data)
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise damaged_error(str(error)) from error


def schema_of(state: StateDict) -> str:
    """SHA-256 of the sorted (name, kind, shape) list: what must agree before tensors are mixed."""
    return schema_of_rows(
        (name, "float" if one.is_floating_point() else str(one.dtype).removeprefix("torch."),
         list(one.shape))
        for name, one in state.items()
    )  # fmt: skip
