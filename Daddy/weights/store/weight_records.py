"""Pure. Records of ``shared_weights``: run card, contribution, commit record, heads, receipts.

Every record is one JSON object with a format number. Reading is strict (``strict_json``); writing
is canonical, so equal records have equal bytes and equal hashes.
``Daddy.core.shared_weights_paths`` gives the path of each record. ``assists`` names the assists
that the weights were learnt with.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.tensor_layout import PLAIN
from Daddy.weights.store.strict_json import FORMAT, REQUIRED, build_record, read_json_object

Record = TypeVar("Record", bound="JsonRecord")

AgreedSettings = tuple[tuple[str, str], ...]
"""Settings and their values as JSON (``Daddy.core.agreed_settings``); older records have none."""

OfferKey = tuple[str, str, int]
"""Peer, incarnation and sequence of a contribution."""

KEPT_RANGES = 64
"""Reverted ranges that a commit record names; a base in an older range is too stale."""


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Base of every record on disk."""

    def to_json_bytes(self) -> bytes:
        """Return canonical JSON, with the format number."""
        fields = {"format": FORMAT, **self._fields()}
        return (json.dumps(fields, sort_keys=True, indent=1) + "\n").encode()

    def _fields(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class AuthoredRecord(JsonRecord):
    """Base of records on one contribution: its author's name and incarnation, its number."""

    peer: str
    incarnation: str
    sequence: int

    @property
    def author(self) -> str:
        """Peer and incarnation, within which sequence numbers count up."""
        return f"{self.peer}/{self.incarnation}"

    @property
    def key(self) -> OfferKey:
        """Sort key: a merge adds contributions up in this order."""
        return (self.peer, self.incarnation, self.sequence)


@dataclass(frozen=True, slots=True)
class RunCard(JsonRecord):
    """``RUN.json``: settings that all peers of one run share; the first job writes it, once."""

    run: str
    run_id: str
    workload: str
    schema: str
    assists: tuple[str, ...] = ()
    terms: AgreedSettings = ()


@dataclass(frozen=True, slots=True)
class Contribution(AuthoredRecord):
    """Progress that one peer offers: a delta of fp32 (laptops: int8 or bf16) from a base version.

    ``form`` names the encoding of its file. ``env_steps`` and ``optimizer_steps`` were made for
    this delta; ``new_steps`` are those of ``env_steps`` that no earlier contribution of the peer
    has counted (a resumed peer replays a few).
    """

    run_id: str
    schema: str
    blob: str
    size: int
    base_version: int
    base_state: str
    env_steps: int
    new_steps: int
    optimizer_steps: int
    assists: tuple[str, ...] = ()
    form: str = PLAIN


@dataclass(frozen=True, slots=True)
class Input(AuthoredRecord):
    """A contribution as it was merged into a version. ``laptop``: it counted as a laptop's; so do
    those of a friend's jobs with trust "laptop".
    """

    blob: str
    base_version: int
    staleness: int
    share: float
    clip: float
    norm: float
    env_steps: int
    new_steps: int
    optimizer_steps: int
    form: str = PLAIN
    laptop: bool = False


@dataclass(frozen=True, slots=True)
class Refusal(AuthoredRecord):
    """A refused contribution with the reason; ``fault`` is "late", "values" or "reverted"."""

    fault: str
    reason: str


@dataclass(frozen=True, slots=True)
class Revert(JsonRecord):
    """The range of versions that a commit record reverts, the version to go back to, the reason.
    Records of the previous release also name ``bad``, the version found worse, the suspected
    contributions (``without``) and the number of contributions added again (``replayed``).
    """

    first: int
    last: int
    bad: int
    good: int
    reason: str
    without: tuple[str, ...] = ()
    replayed: int = 0


def is_reverted(version: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Return True if ``version`` lies in a reverted range."""
    return any(first <= version <= last for first, last in ranges)


@dataclass(frozen=True, slots=True)
class Version(JsonRecord):
    """``merged/v00000043.json``: the commit record of one version; never deleted.

    The defaults are those of version 0, the common initialisation. ``parent`` is the SHA-256 of the
    parent's record. ``consumed`` maps an author to [highest sequence judged, version that judged
    it]. ``norms`` holds recent [norm, optimizer steps], by which admission judges. ``base`` is the
    version to whose state ``replayed`` and the inputs were added: the parent's, unless that was
    lost or reverted. ``restored``: the version continues from a copy (``restore``), nothing was
    merged, and its number leaves a gap. ``reverts`` holds the range that this version reverts, if
    any; ``replayed`` the contributions of it that are added again; ``reverted`` [first, last] of
    recent reverts.
    """

    run_id: str
    schema: str
    state: str
    size: int
    rule: str
    merger: str
    ts: float
    version: int = field(default=0, metadata=REQUIRED)
    parent: str = field(default="", metadata=REQUIRED)
    base: int = field(default=0, metadata=REQUIRED)
    denominator: float = field(default=0.0, metadata=REQUIRED)
    inputs: tuple[Input, ...] = field(default=(), metadata=REQUIRED)
    refused: tuple[Refusal, ...] = field(default=(), metadata=REQUIRED)
    consumed: dict[str, tuple[int, int]] = field(default_factory=dict, metadata=REQUIRED)
    contributors: dict[str, int] = field(default_factory=dict, metadata=REQUIRED)
    norms: tuple[tuple[float, float], ...] = field(default=(), metadata=REQUIRED)
    fleet_steps: int = field(default=0, metadata=REQUIRED)
    assists: tuple[str, ...] = ()
    restored: bool = False
    reverts: tuple[Revert, ...] = ()
    replayed: tuple[Input, ...] = ()
    reverted: tuple[tuple[int, int], ...] = ()

    def judged(self, author: str) -> int:
        """Return the highest sequence of ``author`` that this version or an older one judged."""
        return self.consumed.get(author, (0, 0))[0]

    def next_record(self, **changes: Any) -> Version:
        """Return a copy with ``changes``, without inputs, refusals and reverts of its own."""
        nothing = {"inputs": (), "refused": (), "replayed": (), "reverts": (), "restored": False}
        return dataclasses.replace(self, **{**nothing, **changes})

    def _fields(self) -> dict[str, Any]:
        """Return the fields, with ``probation`` for mergers of the previous release."""
        held_good = {"good": self.version, "trial": 0, "since": 0, "asked_by": ""}
        return {**dataclasses.asdict(self), "probation": held_good}


@dataclass(frozen=True, slots=True)
class Head(JsonRecord):
    """``HEAD.json``: a hint at the newest version, readable without listing a folder."""

    version: int
    record: str
    state: str
    run_id: str
    fleet_steps: int
    ts: float
    contributors: dict[str, int]


def parse(kind: type[Record], data: bytes, name: str) -> Record:
    """Parse the record in ``data``. Raise WeightsError with the file ``name`` and the fault."""
    try:
        return build_record(kind, read_json_object(data))
    except (ValueError, RecursionError) as error:
        raise WeightsError(
            f"{name} is no valid {kind.__name__} record: {error}",
            "the file is skipped; if a job wrote it, check the disk",
        ) from error


@dataclass(frozen=True, slots=True)
class LaptopFrame(JsonRecord):
    """A frame file below ``wan/`` (``encoding``): a whole version, or a delta to it from another
    one. ``sha256`` is of the decoded state, ``base_sha256`` of the state that a delta starts from;
    empty for a whole version.
    """

    file: str
    size: int
    version: int
    sha256: str
    base_sha256: str = ""


@dataclass(frozen=True, slots=True)
class LaptopHead(JsonRecord):
    """``wan/HEAD.json``: the newest whole state that laptops can pull.

    ``name``, ``size`` and ``sha256`` are of the bfloat16 safetensors, which every laptop
    understands; ``parts`` are smaller encodings of the same bytes. ``accepts`` names encodings of
    contributions that are read besides safetensors, ``terms`` the settings that a laptop takes from
    the run, ``release`` the release of the run's jobs, ``reverted`` [first, last] of recent
    reverts.
    """

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
    assists: tuple[str, ...] = ()
    parts: tuple[LaptopFrame, ...] = ()
    accepts: tuple[str, ...] = ()
    terms: AgreedSettings = ()
    release: str = ""
    reverted: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt(AuthoredRecord):
    """Result of one laptop contribution: accepted with a share, or refused with a reason."""

    accepted: bool
    version: int
    share: float
    fault: str
    reason: str


@dataclass(frozen=True, slots=True)
class AttachmentReceipt(AuthoredRecord):
    """Result of an attachment with hash ``sha256`` (``laptop_attachments``)."""

    sha256: str
    accepted: bool
    reason: str
