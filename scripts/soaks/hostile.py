"""Attacks by a hostile laptop: one contribution of each kind.

A merger must survive each, and none may enter a version. Each has an incarnation of its own, so
that a commit record shows which of them was merged.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from Daddy.core.atomic_files import canonical_json, sha256_hex
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.merge.admission import STEPS_LIMIT
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.weight_records import Contribution, LaptopHead

SPARSE_BYTES = 10 << 30
_SMALL = 1e-4


@dataclass(frozen=True)
class Attack:
    """Files to put into a box, by name, and the incarnation that they claim."""

    name: str
    incarnation: str
    files: Mapping[str, bytes]
    sparse: str = ""
    """Name of a file of 10 GiB that takes no room, made over there."""
    raid: int = 0
    welcome: int = 0
    """Allowed merged inputs of that incarnation: one, for a delta that is fair."""


def touching(path: Path) -> bytes:
    """Return a handwritten pickle that creates a file when it is loaded."""
    return f"cposix\nsystem\n(S'touch {path}'\ntR.".encode()


def _endless(size: int) -> bytes:
    """Return a header of the usual size whose shape is a number that JSON reads as infinity."""
    header = b'{"w":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}'
    return len(header).to_bytes(8, "little") + header + bytes(size - len(header) - 8)


class Forge:
    """Makes attacks against the run whose newest version a laptop has pulled."""

    def __init__(
        self, peer: str, frame: LaptopHead, weights: StateDict, proof: Path, raid: int
    ) -> None:
        self._peer, self._frame, self._weights, self._proof = peer, frame, weights, proof
        self._raid = raid

    def all(self) -> list[Attack]:
        """Return one attack of each kind, and a flood of two; their incarnations name the raid."""
        fair = encode(self._delta(), half=True)
        nan = {name: tensor / 0.0 * 0.0 for name, tensor in self._delta().items()}
        boast = encode({name: -2 * tensor for name, tensor in self._delta().items()}, half=True)
        named = {"../../../../tmp/x": torch.zeros(3), **self._delta()}
        bad, most = touching(self._proof), STEPS_LIMIT
        return [
            self._attack("not finite", 1, encode(nan, half=True)),
            self._attack("another run", 2, fair, 0, run_id="0123456789abcdef"),
            self._attack("the same bytes twice", 3, fair, 1),
            self._sparse("ten gibibytes that are none", 4),
            self._attack("a tensor that climbs", 5, encode(named, half=True)),
            self._climbing("a file that climbs", 6, fair),
            self._attack("a pickle", 7, bad),
            self._attack("a shape without end", 8, _endless(len(fair))),
            self._files(
                "a pickle as record", 9, {f"{self._incarnation(9)}-000001-{'0' * 12}.json": bad}
            ),
            self._attack("a whole run's steps", 10, fair, 0, env_steps=1 << 40),
            self._attack("a slot's name", 11, fair, 0, peer="slot-0"),
            self._attack("steps that end a run", 12, boast, 1, env_steps=most, new_steps=most),
            self._attack("the same bytes twice", 13, fair),
            self._attack("a tensor twice", 14, _twice(fair)),
            *(self._attack("colours", 32 + n, b"x", 0, run_id="\x1b[31m" * 400) for n in range(16)),
            *(self._without_file("no file", 64 + n, fair) for n in range(8)),
        ]

    def _delta(self) -> StateDict:
        value = _SMALL * (1.0 + self._raid / 100)
        return {name: torch.full_like(tensor, value) for name, tensor in self._weights.items()}

    def _incarnation(self, number: int) -> str:
        return f"bad{self._raid:03x}{number:02x}"

    def _offer(self, number: int, data: bytes, **lies: object) -> Contribution:
        frame = self._frame
        offer = Contribution(
            run_id=frame.run_id,
            schema=frame.schema,
            peer=self._peer,
            incarnation=self._incarnation(number),
            sequence=1,
            blob=sha256_hex(data),
            size=len(data),
            base_version=frame.version,
            base_state=frame.state,
            env_steps=1_000,
            new_steps=1_000,
            optimizer_steps=100,
        )
        return dataclasses.replace(offer, **lies)  # type: ignore[arg-type]

    def _files(self, name: str, number: int, files: Mapping[str, bytes]) -> Attack:
        return Attack(name, self._incarnation(number), files, raid=self._raid)

    def _attack(
        self, name: str, number: int, data: bytes, welcome: int = 0, **lies: object
    ) -> Attack:
        offer = self._offer(number, data, **lies)
        stem = box_name(offer)
        attack = self._files(
            name, number, {f"{stem}.st": data, f"{stem}.json": offer.to_json_bytes()}
        )
        return dataclasses.replace(attack, welcome=welcome)

    def _without_file(self, name: str, number: int, data: bytes) -> Attack:
        offer = self._offer(number, data)
        return self._files(name, number, {f"{box_name(offer)}.json": offer.to_json_bytes()})

    def _sparse(self, name: str, number: int) -> Attack:
        offer = self._offer(number, b"", size=SPARSE_BYTES)
        attack = self._files(name, number, {f"{box_name(offer)}.json": offer.to_json_bytes()})
        return dataclasses.replace(attack, sparse=f"{box_name(offer)}.st")

    def _climbing(self, name: str, number: int, data: bytes) -> Attack:
        facts = dataclasses.asdict(self._offer(number, data))
        record = canonical_json({"format": 1, **facts, "peer": "../../peers/slot-0"})
        stem = f"{self._incarnation(number)}-000001-{facts['blob'][:12]}"
        return self._files(name, number, {f"..{stem}.st": data, f"{stem}.json": record})


def _twice(data: bytes) -> bytes:
    """Return ``data`` with its header's first tensor named a second time."""
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].rstrip()
    first = header[1 : header.index(b"}") + 1]
    header = b"{" + first + b"," + header[1:]
    return len(header).to_bytes(8, "little") + header + data[8 + size :]
