"""Pure: the records that laptops read: what they are offered, and what became of what they sent.

Read and written as all records are (``manifest``).
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.weights.records.manifest import Input, Refusal, Terms, Written


@dataclass(frozen=True, slots=True)
class Part(Written):
    """A frame below ``wan/`` (``wire``): a version, or the step to it from another.

    ``sha256`` is of the state that comes out, ``base_sha256`` of the state it is a step from, empty
    for a whole one.
    """

    file: str
    size: int
    version: int
    sha256: str
    base_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Keyframe(Written):
    """``wan/HEAD.json``: the newest whole state that laptops can pull.

    ``name``, ``size`` and ``sha256`` are of the bfloat16 safetensors, which every laptop
    understands; ``parts`` are smaller ways to the same bytes. ``accepts`` names the forms of
    contributions that are read besides safetensors, ``terms`` the settings that a laptop takes from
    the run, ``release`` what the run's jobs run from, ``reverted`` [first, last] of what was taken
    back lately.
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
    parts: tuple[Part, ...] = ()
    accepts: tuple[str, ...] = ()
    terms: Terms = ()
    release: str = ""
    reverted: tuple[tuple[int, int], ...] = ()


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

    @classmethod
    def accept(cls, one: Input, version: int, reason: str) -> Receipt:
        """It is part of ``version``."""
        return cls(
            peer=one.peer,
            incarnation=one.incarnation,
            sequence=one.sequence,
            accepted=True,
            version=version,
            share=one.share,
            fault="",
            reason=reason,
        )

    @classmethod
    def refuse(cls, one: Refusal, version: int) -> Receipt:
        """It was judged with ``version`` and did not count."""
        return cls(
            peer=one.peer,
            incarnation=one.incarnation,
            sequence=one.sequence,
            accepted=False,
            version=version,
            share=0.0,
            fault=one.fault,
            reason=one.reason,
        )


@dataclass(frozen=True, slots=True)
class ParcelReceipt(Written):
    """What became of something else that a laptop handed in (``parcels``); ``sha256`` is its."""

    peer: str
    incarnation: str
    sequence: int
    sha256: str
    accepted: bool
    reason: str
