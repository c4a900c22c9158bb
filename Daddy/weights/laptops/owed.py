"""What quantising dropped from a laptop's last contribution, kept for the process that comes next.

One file per peer below ``owed/`` of the pulled folder: a line of JSON that says to what it belongs,
then the numbers as safetensors. It is a remainder, far smaller than what was learnt: one that is
damaged, of another run, or whose contribution was refused for its values, is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic
from Daddy.weights.gate.admission import Fault
from Daddy.weights.laptops.receipts import read_receipts
from Daddy.weights.polyak import StateDict, is_finite
from Daddy.weights.records.manifest import Contribution, Written, parse
from Daddy.weights.records.strict import LIMIT
from Daddy.weights.wire.codec import decode, encode
from Daddy.weights.wire.frames import LIMIT as STATE_LIMIT


@dataclass(frozen=True, slots=True)
class Owed(Written):
    """Whose remainder follows: of which contribution, to which run and policy."""

    run_id: str
    schema: str
    peer: str
    incarnation: str
    sequence: int
    sha256: str


def keep_owed(local: Path, offer: Contribution, rest: StateDict) -> None:
    """Remember ``rest``, what ``offer`` left out, instead of what was owed before. OSError."""
    data = encode(rest)
    head = Owed(
        run_id=offer.run_id,
        schema=offer.schema,
        peer=offer.peer,
        incarnation=offer.incarnation,
        sequence=offer.sequence,
        sha256=sha256_hex(data),
    )
    line = b" ".join(head.to_bytes().split())
    write_atomic(_place(local, offer.peer), line + b"\n" + data)


def read_owed(local: Path, peer: str, run_id: str, schema: str) -> StateDict | None:
    """What ``peer`` still owes to this run; None when nothing does, or nothing that can be used."""
    try:
        line, _, data = read_bounded(_place(local, peer), STATE_LIMIT).partition(b"\n")
        head = parse(Owed, line[: LIMIT + 1], "what is owed")
        if (head.run_id, head.schema, head.peer) != (run_id, schema, peer):
            return None
        if sha256_hex(data) != head.sha256 or _was_bad(local, head):
            return None
        rest = decode(data, schema)
    except (FileNotFoundError, DaddyError):
        return None
    return rest if is_finite(rest) else None


def _was_bad(local: Path, head: Owed) -> bool:
    """Whether the contribution that left this out was refused for what it held."""
    return any(
        (one.incarnation, one.sequence, one.fault)
        == (head.incarnation, head.sequence, Fault.VALUES.value)
        for one in read_receipts(local, head.peer)
    )


def _place(local: Path, peer: str) -> Path:
    return local / "owed" / f"{peer}.st"
