"""Pure: the records of ``shared_weights``: run card, contribution, commit record, head, receipt.

Every record is one JSON object with a format number. Reading is strict (size, duplicate keys, types,
unknown major format) and keeps no unknown field; writing is canonical, so equal records have equal
bytes and equal hashes. The layout they lie in is described in ``Daddy.core.paths.SharedPaths``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from Daddy.core.errors import WeightsError
from Daddy.core.names import PEER

FORMAT = 1
LIMIT = 64 * 1024
"""Bytes of a record: the largest, a commit record, stays below a tenth of it."""

HASH = re.compile(r"[0-9a-f]{64}")
INCARNATION = re.compile(r"[0-9a-f]{8}")
KEYFRAME = re.compile(r"kf-[0-9]{8}-[0-9a-f]{12}\.st")

Record = TypeVar("Record", bound="Written")


@dataclass(frozen=True, slots=True)
class Written:
    """What every record on disk has."""

    def to_bytes(self) -> bytes:
        """Canonical JSON, with the format number."""
        fields = dataclasses.asdict(self)
        return (json.dumps({"format": FORMAT, **fields}, sort_keys=True, indent=1) + "\n").encode()


@dataclass(frozen=True, slots=True)
class RunCard(Written):
    """``RUN.json``: what all peers of one run agree on; written once, by the first."""

    run: str
    run_id: str
    workload: str
    schema: str


@dataclass(frozen=True, slots=True)
class Contribution(Written):
    """Progress that one peer offers: a delta of fp32 (laptops: bf16) against a version.

    ``env_steps`` and ``optimizer_steps`` lie in this delta; ``new_steps`` is the part of ``env_steps``
    that no earlier contribution of the peer has counted (a resumed peer replays a little).
    """

    run_id: str
    schema: str
    peer: str
    incarnation: str
    sequence: int
    blob: str
    size: int
    base_version: int
    base_state: str
    env_steps: int
    new_steps: int
    optimizer_steps: int

    @property
    def author(self) -> str:
        """Peer and process start: whose sequence numbers count on."""
        return f"{self.peer}/{self.incarnation}"


@dataclass(frozen=True, slots=True)
class Input(Written):
    """A contribution as it went into a version."""

    peer: str
    incarnation: str
    sequence: int
    blob: str
    base_version: int
    staleness: int
    share: float
    clip: float
    norm: float
    env_steps: int
    new_steps: int
    optimizer_steps: int


@dataclass(frozen=True, slots=True)
class Refusal(Written):
    """A contribution that did not count, and why; ``fault`` is "late" or "values"."""

    peer: str
    incarnation: str
    sequence: int
    fault: str
    reason: str


@dataclass(frozen=True, slots=True)
class Version(Written):
    """``merged/v00000043.json``: the commit record of one version; kept for ever.

    ``parent`` is the SHA-256 of the parent's record, which chains them. ``consumed`` maps an author
    to [highest sequence judged, version that judged it]. ``norms`` holds recent [norm, optimizer
    steps] for the gate. ``base`` is the version whose state the inputs were added to: the parent's,
    unless that was lost.
    """

    version: int
    run_id: str
    schema: str
    parent: str
    base: int
    state: str
    size: int
    rule: str
    denominator: float
    inputs: tuple[Input, ...]
    refused: tuple[Refusal, ...]
    consumed: dict[str, list[int]]
    contributors: dict[str, int]
    norms: list[list[float]]
    fleet_steps: int
    merger: str
    ts: float


@dataclass(frozen=True, slots=True)
class Head(Written):
    """``HEAD.json``: a hint at the newest version, readable without torch or a listing."""

    version: int
    record: str
    state: str
    run_id: str
    fleet_steps: int
    ts: float
    contributors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Keyframe(Written):
    """``wan/HEAD.json``: the newest whole state that laptops can pull."""

    version: int
    name: str
    size: int
    sha256: str
    state: str
    run: str
    run_id: str
    workload: str
    schema: str
    fleet_steps: int
    ts: float


@dataclass(frozen=True, slots=True)
class Receipt(Written):
    """What became of one laptop contribution."""

    peer: str
    incarnation: str
    sequence: int
    accepted: bool
    version: int
    share: float
    fault: str
    reason: str


def parse(kind: type[Record], data: bytes, name: str) -> Record:
    """The record in ``data``; WeightsError naming ``name`` and the fault when it is not one."""
    try:
        return _build(kind, _read_object(data))
    except (ValueError, RecursionError) as error:
        raise WeightsError(
            f"{name} is no valid {kind.__name__} record: {error}",
            "if one of our programs wrote it, the disk damaged it; it is passed over",
        ) from error


def _read_object(data: bytes) -> dict[str, Any]:
    if len(data) > LIMIT:
        raise ValueError(f"{len(data)} bytes are more than {LIMIT}")
    value = json.loads(data, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one kind of error for all faults
    if value.get("format") != FORMAT:
        raise ValueError(f"format {value.get('format')!r} is not {FORMAT}")
    return value


def _no_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _build(kind: type[Record], value: Mapping[str, Any]) -> Record:
    hints = get_type_hints(kind)
    given = {}
    for one in dataclasses.fields(kind):
        if one.name in value:
            given[one.name] = _check(one.name, hints[one.name], value[one.name])
        elif one.default_factory is dataclasses.MISSING and one.default is dataclasses.MISSING:
            raise ValueError(f"{one.name!r} is missing")
    return kind(**given)


def _check(name: str, hint: Any, value: Any) -> Any:
    """``value`` when it has the type and the form that the field ``name`` demands."""
    if hint is int:
        return _whole(name, value)
    if hint is float:
        return _number(name, value)
    if hint in (str, bool):
        if not isinstance(value, hint):
            raise ValueError(f"{name} is no {hint.__name__}")
        return _form(name, value)
    return _COLLECTIONS[name](name, value)


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"{name} is no whole number from 0 to 2^53")
    return value


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} is no finite number")
    return float(value)


_FORMS = {
    "peer": PEER,
    "incarnation": INCARNATION,
    "blob": HASH,
    "state": HASH,
    "base_state": HASH,
    "schema": HASH,
    "sha256": HASH,
    "record": HASH,
    "parent": re.compile(r"|[0-9a-f]{64}"),
    "name": KEYFRAME,
}


def _form(name: str, value: Any) -> Any:
    form = _FORMS.get(name)
    if form is not None and form.fullmatch(value) is None:
        raise ValueError(f"{name} {value[:80]!r} has not the right form")
    return value


def _nested(kind: type[Written]) -> Any:
    def build(name: str, value: Any) -> tuple[Written, ...]:
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ValueError(f"{name} is no list of records")
        return tuple(_build(kind, one) for one in value)

    return build


def _totals(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return {key: _whole(f"{name}.{key}", one) for key, one in value.items()}


def _consumed(name: str, value: Any) -> dict[str, list[int]]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return {key: [_whole(name, one) for one in pair] for key, pair in value.items()}


def _norms(name: str, value: Any) -> list[list[float]]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return [[_number(name, one) for one in pair] for pair in value]


_COLLECTIONS: Mapping[str, Any] = {
    "inputs": _nested(Input),
    "refused": _nested(Refusal),
    "contributors": _totals,
    "consumed": _consumed,
    "norms": _norms,
}
