"""Pure: the list of tensors at the head of safetensors bytes, read strictly. No torch.

A schema hash stands for names, kinds and shapes, so whoever knows it knows every size. What comes
over the wire shows its list first, and only a list with that hash says how much is allocated.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from Daddy.core.errors import WeightsError

HEADER_LIMIT = 1 << 18
"""Bytes of a header: 100 per tensor, so over two thousand tensors."""

BLOCK = 1024
"""Numbers that share a scale in a quantised delta."""

PLAIN, INT8 = "", "int8"
"""Forms of a delta's file: safetensors, or a frame of int8 with scales."""

_KINDS = {
    "F64": ("float", 8), "F32": ("float", 4), "F16": ("float", 2), "BF16": ("float", 2),
    "I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1),
    "U8": ("uint8", 1), "BOOL": ("bool", 1),
}  # fmt: skip
"""Kind and bytes of one number, by the dtype as safetensors writes it."""
_LENGTH_BYTES = 8

Row = tuple[str, str, list[int]]
"""Name, kind ("float" or an integer's) and shape: what a schema consists of."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: where its bytes lie behind the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def kind(self) -> str:
        """Kind of its numbers: "float", or an integer's name."""
        return _KINDS[self.dtype][0]


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The header's bytes, length included, and the tensors behind it as they lie there."""

    preamble: bytes
    fields: tuple[TensorEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole."""
        return len(self.preamble) + (self.fields[-1].stop if self.fields else 0)


def schema_of_rows(rows: Iterable[Row]) -> str:
    """SHA-256 of the sorted rows."""
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()


def schema_of_bytes(data: bytes) -> str:
    """The schema hash from the header of safetensors bytes; WeightsError when it is damaged."""
    return _schema_of(read_layout(data))


def _schema_of(layout: TensorLayout) -> str:
    return schema_of_rows((one.name, one.kind, list(one.shape)) for one in layout.fields)


def metadata_of(data: bytes) -> dict[str, str]:
    """The metadata beside the tensors in safetensors bytes; WeightsError when it is damaged."""
    found = _header(data)[0].get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise damaged_error("its metadata is no object of texts")
    return found


def read_layout(data: bytes) -> TensorLayout:
    """The list of tensors that ``data`` begins with; no byte between them, each of its own size.

    WeightsError when it is damaged. Nothing is allocated by what it says.
    """
    header, length = _header(data)
    header.pop("__metadata__", None)
    try:
        fields = sorted((_field(name, one) for name, one in header.items()), key=_place)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged_error(f"its header lacks {error}") from error
    end = 0
    for one in fields:
        if one.dtype not in _KINDS:
            raise damaged_error(f"{one.dtype[:20]!r} is no kind of number that we have")
        if one.start != end or one.stop - end != prod(one.shape) * _KINDS[one.dtype][1]:
            raise damaged_error(f"the place of {one.name[:80]!r} does not fit its shape")
        end = one.stop
    return TensorLayout(data[: _LENGTH_BYTES + length], tuple(fields))


def _place(one: TensorEntry) -> tuple[int, int, str]:
    return (one.start, one.stop, one.name)


def _field(name: str, one: dict[str, Any]) -> TensorEntry:
    start, stop = one["data_offsets"]
    numbers = (start, stop, *one["shape"])
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"a size of {name[:80]!r}")
    if not isinstance(one["dtype"], str):
        raise ValueError(f"the kind of {name[:80]!r}")  # noqa: TRY004 - one fault for the caller
    return TensorEntry(name, one["dtype"], tuple(one["shape"]), start, stop)


def refuse_unless_half(layout: TensorLayout, schema: str) -> None:
    """WeightsError unless these are the tensors of ``schema``, the floating ones bfloat16."""
    if any(one.kind == "float" and one.dtype != "BF16" for one in layout.fields):
        raise damaged_error("it holds numbers that are not bfloat16")
    refuse_other_schema(_schema_of(layout), schema)


def refuse_unless_quantised(layout: TensorLayout, schema: str) -> None:
    """WeightsError unless these are the tensors of ``schema`` as int8 with their scales.

    A floating tensor x is ``q.x`` (int8), ``s.x`` (float16, one per block) and ``u.x`` (float32,
    one); any other is ``i.x``.
    """
    rows, expected = [], set()
    for one in layout.fields:
        name = one.name
        if name.startswith("q."):
            plain, blocks = name[2:], -(-prod(one.shape) // BLOCK)
            rows.append((plain, "float", list(one.shape)))
            expected |= {(name, "I8", one.shape), (f"s.{plain}", "F16", (blocks,))}
            expected.add((f"u.{plain}", "F32", (1,)))
        elif name.startswith("i.") and one.kind != "float":
            rows.append((name[2:], one.kind, list(one.shape)))
            expected.add((name, one.dtype, one.shape))
    refuse_other_schema(schema_of_rows(rows), schema)
    if expected != {(one.name, one.dtype, one.shape) for one in layout.fields}:
        raise damaged_error("its scales do not belong to its tensors")


def refuse_other_schema(found: str, schema: str) -> None:
    """WeightsError when the two hashes differ."""
    if found != schema:
        raise WeightsError(
            "the weights have other tensor names or shapes than expected (schema hash "
            f"{found[:12]}, expected {schema[:12]})",
            "they belong to another policy or another version of the code",
        )


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header and its length."""
    if len(data) < _LENGTH_BYTES:
        raise damaged_error(f"it has {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:_LENGTH_BYTES])
    if length > min(HEADER_LIMIT, len(data) - _LENGTH_BYTES):
        raise damaged_error(f"its header claims {length} bytes")
    try:
        header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    except (ValueError, RecursionError) as error:
        raise damaged_error("its header is not JSON") from error
    if not isinstance(header, dict):
        raise damaged_error("its header is no object")
    return header, length


def damaged_error(detail: str) -> WeightsError:
    """The error for bytes that are no complete safetensors, with the ``detail``."""
    return WeightsError(f"the file is no complete safetensors: {detail}", "fetch or write it again")
