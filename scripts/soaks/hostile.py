"""Attacks by a hostile laptop: one contribution of each kind.

A merger must survive each, and none may enter a version. Each has an incarnation of its own, so
that a commit record shows which of them was merged.
"""

from __future__ import annotations

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

    def __init__(self, peer: str, frame: LaptopHead, weights: StateDict, proof: Path) -> None:
        self._peer, self._frame, self._weights, self._proof = peer, frame, weights, proof

    def all(self) -> list[Attack]:
        """Return one attack of each kind."""
        fair = encode(self._delta(), half=True)
        nan = {name: tensor / 0.0 * 0.0 for name, tensor in self._delta().items()}
        doubled = {name: 2 * tensor for name, tensor in self._delta().items()}
        named = {"../../../../tmp/x": torch.zeros(3), **self._delta()}
        bad = touching(self._proof)
        return [
            self._attack("not finite", "bad00001", encode(nan, half=True)),
            self._attack("another run", "bad00002", fair, run_id="0123456789abcdef"),
            self._again("the same twice", "bad00003", fair),
            self._sparse("ten gibibytes that are none", "bad00004"),
            self._attack("a tensor that climbs", "bad00005", encode(named, half=True)),
            self._climbing("a file that climbs", "bad00006", fair),
            self._attack("a pickle", "bad00007", bad),
            self._attack("a shape without end", "bad0000b", _endless(len(fair))),
            Attack("a pickle as record", "bad00008", {f"bad00008-000001-{'0' * 12}.json": bad}),
            self._attack("a whole run's steps", "bad00009", fair, env_steps=1 << 40),
            self._attack("a slot's name", "bad0000a", fair, peer="slot-0"),
            self._boasting("steps that end a run", "bad0000c", encode(doubled, half=True)),
            self._attack("the same bytes anew", "bad0000d", fair),
        ]

    def _delta(self) -> StateDict:
        return {name: torch.full_like(tensor, _SMALL) for name, tensor in self._weights.items()}

    def _offer(self, incarnation: str, data: bytes, size: int, **lies: object) -> Contribution:
        frame = self._frame
        offer = Contribution(
            run_id=frame.run_id,
            schema=frame.schema,
            peer=self._peer,
            incarnation=incarnation,
            sequence=1,
            blob=sha256_hex(data),
            size=size,
            base_version=frame.version,
            base_state=frame.state,
            env_steps=1_000,
            new_steps=1_000,
            optimizer_steps=100,
        )
        return dataclasses.replace(offer, **lies)  # type: ignore[arg-type]

    def _attack(self, name: str, incarnation: str, data: bytes, **lies: object) -> Attack:
        offer = self._offer(incarnation, data, len(data), **lies)
        stem = box_name(offer)
        return Attack(
            name, incarnation, {f"{stem}.st": data, f"{stem}.json": offer.to_json_bytes()}
        )

    def _again(self, name: str, incarnation: str, data: bytes) -> Attack:
        """Return a fair contribution; the caller sends it a second time."""
        return dataclasses.replace(self._attack(name, incarnation, data), welcome=1)

    def _boasting(self, name: str, incarnation: str, data: bytes) -> Attack:
        """Return a contribution of the most steps that a record may claim: few of them count."""
        boast = self._attack(name, incarnation, data, env_steps=STEPS_LIMIT, new_steps=STEPS_LIMIT)
        return dataclasses.replace(boast, welcome=1)

    def _sparse(self, name: str, incarnation: str) -> Attack:
        offer = self._offer(incarnation, b"", SPARSE_BYTES)
        stem = box_name(offer)
        return Attack(
            name, incarnation, {f"{stem}.json": offer.to_json_bytes()}, sparse=f"{stem}.st"
        )

    def _climbing(self, name: str, incarnation: str, data: bytes) -> Attack:
        facts = dataclasses.asdict(self._offer(incarnation, data, len(data)))
        record = canonical_json({"format": 1, **facts, "peer": "../../peers/slot-0"})
        stem = f"{incarnation}-000001-{facts['blob'][:12]}"
        return Attack(name, incarnation, {f"..{stem}.st": data, f"{stem}.json": record})
