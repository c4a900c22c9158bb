"""State dicts to safetensors bytes and back; the other file that knows torch.

Bytes are parsed from memory, after their hash was checked by the caller: a file is never mapped (a
truncation under a mapping kills the reader) and nothing is ever unpickled. Equal states have equal
bytes. Floating tensors are float32 in memory; on the wire they may be bfloat16, half the size.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from Daddy.core.errors import WeightsError
from Daddy.weights.polyak import StateDict

HEADER_LIMIT = 1 << 18
"""Bytes of a header: 100 per tensor, so over two thousand tensors."""

_LENGTH_BYTES = 8
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def encode(state: StateDict, *, half: bool = False) -> bytes:
    """``state`` as safetensors bytes, float32 or, if ``half``, bfloat16; integers as they are."""
    wire = torch.bfloat16 if half else torch.float32
    return bytes(save({name: _ready(one, wire) for name, one in sorted(state.items())}))


def _ready(one: torch.Tensor, wire: torch.dtype) -> torch.Tensor:
    cast = one.detach().cpu().to(wire) if one.is_floating_point() else one.detach().cpu()
    return cast.clone(memory_format=torch.contiguous_format)


def decode(data: bytes, schema: str = "") -> StateDict:
    """The state in ``data``, floating tensors as float32.

    WeightsError when it is no safetensors, or when ``schema`` is given and is not its schema hash.
    """
    found = schema_of_bytes(data)
    if schema and found != schema:
        raise WeightsError(
            "the weights have other tensor names or shapes than expected (schema hash "
            f"{found[:12]}, expected {schema[:12]})",
            "they belong to another policy or another version of the code",
        )
    try:
        state = load(data)
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise _damaged(str(error)) from error
    return {name: one.float() if one.is_floating_point() else one for name, one in state.items()}


def schema_of(state: StateDict) -> str:
    """SHA-256 of the sorted (name, kind, shape) list: what must agree before tensors are mixed."""
    return _schema([
        (name, "float" if one.is_floating_point() else str(one.dtype).removeprefix("torch."),
         list(one.shape))
        for name, one in state.items()
    ])  # fmt: skip


def schema_of_bytes(data: bytes) -> str:
    """The same hash from the header of safetensors bytes; WeightsError when it is damaged."""
    header = _header(data)
    try:
        return _schema([
            (name, _kind(one["dtype"]), [int(size) for size in one["shape"]])
            for name, one in header.items()
            if name != "__metadata__"
        ])  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"its header lacks {error}") from error


_INTEGERS = {"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
             "BOOL": "bool"}  # fmt: skip


def _kind(dtype: str) -> str:
    return "float" if dtype in _FLOATS else _INTEGERS.get(dtype, dtype)


def _schema(rows: list[tuple[str, str, list[int]]]) -> str:
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()


def _header(data: bytes) -> dict[str, Any]:
    if len(data) < _LENGTH_BYTES:
        raise _damaged(f"it has {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:_LENGTH_BYTES])
    if length > min(HEADER_LIMIT, len(data) - _LENGTH_BYTES):
        raise _damaged(f"its header claims {length} bytes")
    try:
        header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    except (ValueError, RecursionError) as error:
        raise _damaged("its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged("its header is no object")
    return header


def _damaged(detail: str) -> WeightsError:
    return WeightsError(f"the file is no complete safetensors: {detail}", "fetch or write it again")
