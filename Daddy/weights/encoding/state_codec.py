"""Converts state dicts to safetensors bytes and back (torch).

Bytes are parsed from memory, after their hash was checked by the caller: a file is never mapped (a
truncation under a mapping kills the reader) and nothing is ever unpickled. Equal states have equal
bytes. Floating tensors are float32 in memory; on the network they may be bfloat16, half the size.
"""

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
    """Return ``state`` as safetensors bytes, floating tensors as float32 or, if ``half``, bfloat16,
    integers unchanged. ``metadata`` goes into the header. It may hold one key at most: the library
    does not sort keys, so with more keys equal states would have different bytes.
    """
    dtype = torch.bfloat16 if half else torch.float32
    tensors = {name: _ready(tensor, dtype) for name, tensor in sorted(state.items())}
    return bytes(save(tensors, metadata=dict(metadata) if metadata else None))


def _ready(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cpu = tensor.detach().cpu()
    converted = cpu.to(dtype) if cpu.is_floating_point() else cpu
    return converted.clone(memory_format=torch.contiguous_format)


def decode(data: bytes, schema: str = "") -> StateDict:
    """Return the state in ``data``, floating tensors as float32. Raise WeightsError when ``data``
    is no safetensors, or when ``schema`` is given and is not the schema hash of ``data``.
    """
    actual = schema_of_bytes(data)
    if schema:
        refuse_other_schema(actual, schema)
    tensors = load_tensors(data)
    return {name: x.float() if x.is_floating_point() else x for name, x in tensors.items()}


def load_tensors(data: bytes) -> StateDict:
    """Parse safetensors bytes into tensors, dtypes unchanged. Raise WeightsError if damaged."""
    try:
        return load(data)
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise damaged_error(str(error)) from error


def schema_of(state: StateDict) -> str:
    """Return the schema hash, equal for equal lists of tensor name, kind and shape."""
    return schema_of_rows(
        (name, "float" if tensor.is_floating_point() else str(tensor.dtype).removeprefix("torch."),
         list(tensor.shape))
        for name, tensor in state.items()
    )  # fmt: skip
