"""Pure. Reads JSON strictly into dataclasses: bounded, no duplicate keys, right types and forms.

A field's type comes from its annotation, its form (a hash, a peer's name) from its name. A value
that does not fit raises ValueError with the field; the caller adds the file's name.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from Daddy.core.name_validation import WRITER, unique_names

FORMAT = 1
REQUIRED = {"required": True}
"""Metadata of a field that has a default but must be in every record on disk."""

LIMIT = 64 * 1024
"""Bytes of a record: the largest, a commit record, stays well below."""

HASH = re.compile(r"[0-9a-f]{64}")
INCARNATION = re.compile(r"[0-9a-f]{8}")
KEYFRAME = re.compile(r"kf-[0-9]{8}-[0-9a-f]{12}\.st")
PART = re.compile(r"(kf|d)-[0-9]{8}-[0-9a-f]{12}\.wire")

FORMS: Mapping[str, re.Pattern[str]] = {
    "peer": WRITER,
    "incarnation": INCARNATION,
    "blob": HASH,
    "state": HASH,
    "base_state": HASH,
    "reference_state": HASH,
    "schema": HASH,
    "sha256": HASH,
    "record": HASH,
    "parent": re.compile(r"|[0-9a-f]{64}"),
    "base_sha256": re.compile(r"|[0-9a-f]{64}"),
    "name": KEYFRAME,
    "file": PART,
    "form": re.compile(r"[a-z0-9]{0,16}"),
    "accepts": re.compile(r"[a-z0-9]{1,16}"),
    "assists": re.compile(r"[a-z_]{1,40}"),
    "terms": re.compile(r"[ -~]{1,200}"),
    "release": re.compile(r"[A-Za-z0-9._-]{0,64}"),
    "run_id": re.compile(r"[A-Za-z0-9._-]{0,64}"),
}
"""Pattern by field name, for text that becomes part of a path or is compared with a hash."""

Record = TypeVar("Record")


def read_json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in ``data`` if it has format number 1. Raise ValueError otherwise."""
    if len(data) > LIMIT:
        raise ValueError(f"its {len(data)} bytes are more than {LIMIT}")
    value = json.loads(data, object_pairs_hook=unique_names, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise ValueError("its JSON is not an object")  # noqa: TRY004 - one kind of error for all faults
    if value.get("format") != FORMAT:
        raise ValueError(f"its format {value.get('format')!r} is not {FORMAT}")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def build_record(kind: type[Record], value: Any) -> Record:
    """Build a dataclass ``kind`` from a JSON object; ignore unknown fields. Raise ValueError for a
    missing field, unless it has a default and is not marked ``REQUIRED``, and for a wrong value.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a {kind.__name__} is no object")  # noqa: TRY004
    hints = _hints(kind)  # type: ignore[arg-type]
    for entry in dataclasses.fields(kind):  # type: ignore[arg-type]
        bare = entry.default is entry.default_factory is dataclasses.MISSING
        if entry.name not in value and (bare or entry.metadata):
            raise ValueError(f"its field {entry.name!r} is missing")
    present = {name: hint for name, hint in hints.items() if name in value}
    return kind(**{name: _check(name, hint, value[name]) for name, hint in present.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


_MEANING = {int: "whole number from 0 to 2^53", float: "finite number", str: "text of that form"}


def _check(name: str, hint: Any, value: Any) -> Any:
    """Return ``value`` if it has type ``hint`` and the form of field ``name``; else ValueError."""
    if dataclasses.is_dataclass(hint):
        return build_record(hint, value)  # type: ignore[arg-type]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is dict and isinstance(value, dict):
        return {key: _check(name, inner[1], item) for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        hints = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(hints) == len(value):
            return tuple(_check(name, *pair) for pair in zip(hints, value, strict=True))
    if origin is None and _is_plain(name, hint, value):
        return hint(value)
    raise ValueError(f"{name} {str(value)[:80]!r} is no {_MEANING.get(hint, 'value of its kind')}")


def _is_plain(name: str, hint: Any, value: Any) -> bool:
    """Return True if ``value`` is the bool, number or text that field ``name`` holds."""
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and 0 <= value < 2**53
    if hint is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    form = FORMS.get(name)
    return isinstance(value, str) and (form is None or form.fullmatch(value) is not None)
