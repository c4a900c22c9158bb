"""Pure. Reads the list of tensors at the head of safetensors bytes strictly. No torch.

A schema hash covers names, kinds and shapes of tensors, and so fixes every size. Bytes from the
network start with their list of tensors; memory is allocated only after that list has the hash.
"""

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from Daddy.core.errors import WeightsError
from Daddy.core.name_validation import unique_names

HEADER_LIMIT = 1 << 18
"""Bytes of a header: at 100 per tensor, over two thousand tensors."""

BLOCK = 1024
"""Numbers that share a scale in a quantised delta."""

PLAIN, INT8 = "", "int8"
"""Encodings of a delta's file: safetensors, or a frame of int8 with scales."""

_KINDS = {
    "F64": ("float", 8), "F32": ("float", 4), "F16": ("float", 2), "BF16": ("float", 2),
    "I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1),
    "U8": ("uint8", 1), "BOOL": ("bool", 1),
}  # fmt: skip
"""Kind and bytes of one number, by the dtype as safetensors writes it."""
_LENGTH_BYTES = 8

Row = tuple[str, str, list[int]]
"""Name, kind ("float" or an integer's) and shape of a tensor; a schema is the list of these."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Name, dtype and shape of one tensor, and the range of its bytes behind the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def kind(self) -> str:
        """Kind of the tensor's numbers: "float", or an integer's name."""
        return _KINDS[self.dtype][0]


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Holds the bytes of a safetensors header, with its length, and the tensors in order."""

    preamble: bytes
    fields: tuple[TensorEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of header and tensors."""
        return len(self.preamble) + (self.fields[-1].stop if self.fields else 0)


def schema_of_rows(rows: Iterable[Row]) -> str:
    """Return the schema hash of these tensors: SHA-256 of the sorted rows as JSON."""
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()


def schema_of_bytes(data: bytes) -> str:
    """Return the schema hash of safetensors bytes; WeightsError when the header is damaged."""
    return _schema_of(read_layout(data))


def _schema_of(layout: TensorLayout) -> str:
    return schema_of_rows((field.name, field.kind, list(field.shape)) for field in layout.fields)


def metadata_of(data: bytes) -> dict[str, str]:
    """Return the metadata in a safetensors header. Raise WeightsError if it is damaged."""
    found = _header(data)[0].get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise damaged_error("its metadata is no object of texts")
    return found


def read_layout(data: bytes) -> TensorLayout:
    """Read the list of tensors at the head of ``data``. Raise WeightsError when the list is
    damaged, when tensors leave a gap or do not have the size of their shape. No memory is allocated
    by the sizes that ``data`` claims.
    """
    header, length = _header(data)
    header.pop("__metadata__", None)
    try:
        fields = sorted((_field(name, entry) for name, entry in header.items()), key=_place)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged_error(f"its header lacks {error}") from error
    end = 0
    for tensor in fields:
        if tensor.dtype not in _KINDS:
            raise damaged_error(f"{tensor.dtype[:20]!r} is no kind of number that we have")
        if tensor.start != end or tensor.stop - end != prod(tensor.shape) * _KINDS[tensor.dtype][1]:
            raise damaged_error(f"the place of {tensor.name[:80]!r} does not fit its shape")
        end = tensor.stop
    return TensorLayout(data[: _LENGTH_BYTES + length], tuple(fields))


def _place(tensor: TensorEntry) -> tuple[int, int, str]:
    return (tensor.start, tensor.stop, tensor.name)


def _field(name: str, entry: dict[str, Any]) -> TensorEntry:
    start, stop = entry["data_offsets"]
    numbers = (start, stop, *entry["shape"])
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"a valid size of {name[:80]!r}")
    if not isinstance(entry["dtype"], str):
        raise ValueError(f"a dtype of {name[:80]!r}")  # noqa: TRY004 - the caller catches one type
    return TensorEntry(name, entry["dtype"], tuple(entry["shape"]), start, stop)


def refuse_unless_half(layout: TensorLayout, schema: str) -> None:
    """Raise WeightsError unless ``layout`` has the tensors of ``schema``, floats as bfloat16."""
    if any(tensor.kind == "float" and tensor.dtype != "BF16" for tensor in layout.fields):
        raise damaged_error("it holds numbers that are not bfloat16")
    refuse_other_schema(_schema_of(layout), schema)


def refuse_unless_quantised(layout: TensorLayout, schema: str) -> None:
    """Raise WeightsError unless ``layout`` has the tensors of ``schema`` as int8 with scales. A
    floating tensor x is stored as ``q.x`` (int8), ``s.x`` (float16, one per block) and ``u.x``
    (float32, one number); any other tensor x as ``i.x``.
    """
    rows, expected = [], set()
    for tensor in layout.fields:
        name = tensor.name
        if name.startswith("q."):
            plain, blocks = name[2:], -(-prod(tensor.shape) // BLOCK)
            rows.append((plain, "float", list(tensor.shape)))
            expected |= {(name, "I8", tensor.shape), (f"s.{plain}", "F16", (blocks,))}
            expected.add((f"u.{plain}", "F32", (1,)))
        elif name.startswith("i.") and tensor.kind != "float":
            rows.append((name[2:], tensor.kind, list(tensor.shape)))
            expected.add((name, tensor.dtype, tensor.shape))
    refuse_other_schema(schema_of_rows(rows), schema)
    if expected != {(tensor.name, tensor.dtype, tensor.shape) for tensor in layout.fields}:
        raise damaged_error("its scales do not belong to its tensors")


def refuse_other_schema(actual: str, schema: str) -> None:
    """Raise WeightsError when two schema hashes differ: ``actual`` and the expected ``schema``."""
    if actual != schema:
        raise WeightsError(
            "the weights have other tensor names or shapes than expected (schema hash "
            f"{actual[:12]}, expected {schema[:12]})",
            "use the policy and the release that wrote them",
        )


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _LENGTH_BYTES:
        raise damaged_error(f"it has {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:_LENGTH_BYTES])
    if length > min(HEADER_LIMIT, len(data) - _LENGTH_BYTES):
        raise damaged_error(f"its header claims {length} bytes")
    try:
        text = data[_LENGTH_BYTES : _LENGTH_BYTES + length]
        header = json.loads(text, object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        raise damaged_error(f"its header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise damaged_error("its header is no object")
    return header, length


def damaged_error(detail: str) -> WeightsError:
    """Return the WeightsError for bytes that are no complete safetensors; ``detail`` says why."""
    return WeightsError(f"the file is no complete safetensors: {detail}", "fetch or write it again")
