"""Crews with a member that keeps to the protocol and lies in what it offers.

It trains honestly from the newest version and then sends something else, as a job would: with a
whole share and without a laptop's caps. The gate is the product's, or switched off for the control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from Daddy.core.names import new_incarnation
from Daddy.core.shared_paths import SharedPaths
from Daddy.learning.ports import WeightExchange
from Daddy.weights import exchange as exchanging
from Daddy.weights import merger, offers, progress
from Daddy.weights.beats import Pulse, beat
from Daddy.weights.encoding.state_codec import decode, encode, schema_of
from Daddy.weights.gate import hearing, judging
from Daddy.weights.gate.admission import ADMITTED, Verdict
from Daddy.weights.gate.usual import Believed
from Daddy.weights.history import read_history
from Daddy.weights.polyak import StateDict, add, copy, difference, move, norm
from Daddy.weights.progress import Adoption
from Daddy.weights.store.records import Contribution, Version
from Daddy.weights.store.store import Store
from scripts.benches._sharing_crew import Crew, Member

SLEEP = 10
"""Offers for which a sleeper is honest."""
BOAST = 1_000
"""Times the steps that it made are what a boaster claims."""
_SIGMA = 3.0
QUARANTINE = 20
"""Versions within which a liar that is not harmless has to be shut out."""


@dataclass(frozen=True)
class Told:
    """What is offered: a delta, and how many times the true steps are claimed for it."""

    delta: StateDict
    boast: int = 1


Lie = Callable[[StateDict, int], Told]
"""(honest delta, number of the offer from 1) → what is offered instead."""


def scaled(delta: StateDict, factor: float) -> StateDict:
    """The delta times `factor`."""
    return move({name: one * 0 for name, one in delta.items()}, [delta], [factor])


def _random(delta: StateDict, seed: int) -> StateDict:
    dice = torch.Generator().manual_seed(seed)
    return {name: torch.randn(one.shape, generator=dice) for name, one in delta.items()}


def _nan(delta: StateDict, number: int) -> Told:
    """Every third offer has one value that is no number."""
    name = next(iter(delta))
    broken = {**delta, name: delta[name].clone()}
    broken[name].view(-1)[0] = torch.nan
    return Told(broken if number % 3 == 0 else delta)


def _noise(delta: StateDict, number: int) -> Told:
    return Told(scaled(_random(delta, number), _SIGMA))


def _sleeper(delta: StateDict, number: int) -> Told:
    """Honest for a while, then backwards as far as is not even scaled down."""
    return Told(delta if number <= SLEEP else scaled(delta, -2.0))


def _orthogonal(delta: StateDict, number: int) -> Told:
    """Always the same direction, at a right angle to what was learnt and just as long."""
    del number
    away = _random(delta, 0)
    inside = sum(float((away[name] * one).sum()) for name, one in delta.items())
    away = add(away, scaled(delta, -inside / max(norm(delta) ** 2, 1e-12)))
    return Told(scaled(away, norm(delta) / norm(away)))


LIES: dict[str, Lie] = {
    "nan": _nan,
    "noise": _noise,
    "x-10": lambda delta, _: Told(scaled(delta, -10.0)),
    "x-1": lambda delta, _: Told(scaled(delta, -1.0)),
    "sleeper": _sleeper,
    "orthogonal": _orthogonal,
    "inflated": lambda delta, _: Told(scaled(delta, -1.0), BOAST),
    "colluders": lambda delta, _: Told(scaled(delta, -1.0)),
}


class Plain:
    """A peer's view of the shared folder without book-keeping, made of the product's own doors.

    It always goes on from the newest version as it is, so each delta is a round of honest learning;
    `lie` decides what is offered instead.
    """

    def __init__(self, paths: SharedPaths, peer: str, lie: Lie) -> None:
        self._store, self._peer, self._lie = Store(paths), peer, lie
        self._incarnation = new_incarnation()
        self._sequence, self._steps, self._updates = 0, 0, 0
        self._version: Version | None = None
        self._base: StateDict = {}

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """The newest version; somebody honest has begun before. Its heart beats from here on."""
        del initial, resumed
        self.beat()
        return self._take()

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer what the lie makes of the progress since the version."""
        assert self._version is not None
        self._sequence += 1
        told = self._lie(difference(copy(weights), self._base), self._sequence)
        data = encode(told.delta)
        steps, updates = env_steps - self._steps, optimizer_steps - self._updates
        self._steps, self._updates = env_steps, optimizer_steps
        offer = Contribution(
            run_id=self._version.run_id,
            schema=schema_of(told.delta),
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=self._sequence,
            blob=self._store.put_blob(data, "blob"),
            size=len(data),
            base_version=self._version.version,
            base_state=self._version.state,
            env_steps=steps * told.boast,
            new_steps=steps * told.boast,
            optimizer_steps=updates * told.boast,
        )
        offers.publish(self._store, offer)
        return f"contribution {self._sequence}"

    def adopt(self, weights: StateDict) -> Adoption | None:  # noqa: ARG002
        """The newest version as it is."""
        self.beat()
        return self._take()

    def beat(self) -> None:
        """It lives, and looks as alive as anybody."""
        pulse = Pulse(self._peer, self._incarnation, self._sequence + 1, 0, left=False)
        beat(self._store, pulse, {})

    def _take(self) -> Adoption:
        self._version = self._store.version(self._store.newest() or 0)
        self._base = decode(self._store.get_blob(self._version.state))
        return Adoption(self._version.version, copy(self._base), "took the newest")

    def fleet_steps(self) -> int:
        """Of no interest to it."""
        return 0

    def bookkeeping(self) -> bytes:
        """It never comes back."""
        return b""


@contextmanager
def open_gate() -> Iterator[None]:
    """The product without its looks at values: the control that shows what the gate is worth."""
    off: list[tuple[Any, str, Callable[..., Any]]] = [
        (hearing, "judge_values", _admit),
        (hearing, "judge_sight", _unseen),
        (hearing, "believe", _as_claimed),
        (judging, "norm", _unknown),  # what is no number could not be written down
        *((module, "is_finite", _always) for module in (exchanging, merger, progress)),
    ]
    kept = [(module, name, getattr(module, name)) for module, name, _ in off]
    try:
        for module, name, instead in off:
            setattr(module, name, instead)
        yield
    finally:
        for module, name, before in kept:
            setattr(module, name, before)


def _admit(*_: object, **__: object) -> Verdict:
    return ADMITTED


def _as_claimed(env_steps: int, new_steps: int, *_: object) -> Believed:
    return Believed(env_steps, new_steps)


def _unseen(*_: object, **__: object) -> None:
    """Nothing speaks against it."""


def _unknown(_: StateDict) -> float:
    return 1.0


def _always(_: StateDict) -> bool:
    return True


@dataclass
class HostileCrew(Crew):
    """The last tells `lie`, of colluders the last two; the honest ones' weights are judged."""

    lie: str = "nan"
    gated: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for member in self.members:
            member.judged = member.peer not in self.liars

    @property
    def liars(self) -> set[str]:
        """Who lies."""
        many = 2 if self.lie == "colluders" else 1
        return {f"slot-{number}" for number in range(self.workers - many, self.workers)}

    def sharing(self, peer: str) -> WeightExchange:
        if peer in self.liars:
            return Plain(SharedPaths(self.root), peer, LIES[self.lie])
        return super().sharing(peer)

    def share(self, order: Sequence[Member], number: int) -> None:
        if self.gated:
            super().share(order, number)
            return
        with open_gate():
            super().share(order, number)

    def told(self) -> dict[str, Any]:
        """What became of the lies."""
        versions = read_history(SharedPaths(self.root)).versions
        taken = [one for v in versions for one in v.inputs if one.peer in self.liars]
        refused = [v.version for v in versions for one in v.refused if one.peer in self.liars]
        reasons = [one.reason for v in versions for one in v.refused if one.peer in self.liars]
        return {
            **super().told(),
            "liars_cosines": self.cosines.told(self.liars),
            "lies_merged": len(taken),
            "lies_scaled_down": sum(one.clip < 1.0 for one in taken),
            "lies_refused": len(refused),
            "last_merged_in": max((one.version for one in versions if any(
                put.peer in self.liars for put in one.inputs)), default=0),
            "versions": len(versions) - 1,
            "refused_because": reasons[-1] if reasons else "",
        }  # fmt: skip
