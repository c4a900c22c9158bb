"""Groups with a member that follows the protocol but offers false deltas.

It trains honestly from the newest version and then sends another delta, as a job would: with a
whole share and without a laptop's caps. Admission is the product's, or switched off for the
control.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_types import Adoption
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning.interfaces import WeightExchange
from Daddy.weights import weight_exchange as exchanging
from Daddy.weights.encoding import state_arithmetic
from Daddy.weights.encoding.state_arithmetic import StateDict, add_scaled, copy_state, difference
from Daddy.weights.encoding.state_codec import decode, encode, schema_of
from Daddy.weights.merge import compute_version, contributions
from Daddy.weights.merge.admission import ADMITTED, AdmissionVerdict
from Daddy.weights.store.heartbeats import Heartbeat, write_heartbeat
from Daddy.weights.store.weight_records import Contribution, Version
from Daddy.weights.store.weight_store import Store
from scripts.benches._sharing_group import LearnerGroup, Member
from scripts.version_history import read_history

BOAST = 1_000
"""Times the steps that it made are what a boaster claims."""
_SIGMA = 3.0


@dataclass(frozen=True)
class FalseOffer:
    """An offer: a delta, and the factor by which its true steps are multiplied."""

    delta: StateDict
    boast: int = 1


Lie = Callable[[StateDict, int], FalseOffer]
"""(honest delta, number of the offer from 1) → what is offered instead."""


def scaled(delta: StateDict, factor: float) -> StateDict:
    """Return the delta times `factor`."""
    return add_scaled({name: tensor * 0 for name, tensor in delta.items()}, [delta], [factor])


def _random(delta: StateDict, seed: int) -> StateDict:
    dice = torch.Generator().manual_seed(seed)
    return {name: torch.randn(tensor.shape, generator=dice) for name, tensor in delta.items()}


def _nan(delta: StateDict, number: int) -> FalseOffer:
    """Put a NaN into every third offer."""
    name = next(iter(delta))
    broken = {**delta, name: delta[name].clone()}
    broken[name].view(-1)[0] = torch.nan
    return FalseOffer(broken if number % 3 == 0 else delta)


def _noise(delta: StateDict, number: int) -> FalseOffer:
    return FalseOffer(scaled(_random(delta, number), _SIGMA))


LIES: dict[str, Lie] = {
    "nan": _nan,
    "noise": _noise,
    "x-10": lambda delta, _: FalseOffer(scaled(delta, -10.0)),
    "inflated": lambda delta, _: FalseOffer(delta, BOAST),
}


class PlainExchange:
    """A peer's exchange without book-keeping, made of the product's own functions.

    It always continues from the newest version, so each delta is a round of honest learning; `lie`
    decides which delta is offered instead.
    """

    def __init__(self, paths: SharedPaths, peer: str, lie: Lie) -> None:
        self._store, self._peer, self._lie = Store(paths), peer, lie
        self._incarnation = new_incarnation()
        self._sequence, self._steps, self._updates = 0, 0, 0
        self._version: Version | None = None
        self._base: StateDict = {}

    def join_fleet(self, *_: object) -> Adoption:
        """Return the newest version, which an honest peer has written; start the heartbeat."""
        self.beat()
        return self._take()

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer the lie made from the progress since the version."""
        assert self._version is not None
        self._sequence += 1
        told = self._lie(difference(copy_state(weights), self._base), self._sequence)
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
        contributions.write_contribution(self._store, offer)
        return f"contribution {self._sequence}"

    def restart_from_newest(self, env_steps: int) -> Adoption:  # noqa: ARG002
        return self._take()

    def adopt(self, weights: StateDict, *_: int) -> Adoption | None:  # noqa: ARG002
        """Return the newest version as it is."""
        self.beat()
        return self._take()

    def beat(self) -> None:
        """Write a heartbeat like any peer."""
        folder = self._store.paths.peer(self._peer, self._incarnation)
        write_heartbeat(
            self._store, Heartbeat(folder, counter=self._sequence + 1, version=0, left=False)
        )

    def _take(self) -> Adoption:
        self._version = self._store.version(self._store.newest() or 0)
        self._base = decode(self._store.read_blob(self._version.state))
        return Adoption(self._version.version, copy_state(self._base), "took the newest")

    def fleet_steps(self) -> int:
        """Return 0: this peer does not use it."""
        return 0

    def resume_state(self) -> bytes:
        """Return nothing: this peer never resumes."""
        return b""


@contextmanager
def open_gate() -> Iterator[None]:
    """Switch off admission's checks of values: the control."""
    off: list[tuple[Any, str, Callable[..., Any]]] = [
        (compute_version, "judge_values", _admit),
        (compute_version, "cap_claimed_steps", _as_claimed),
        (compute_version, "norm", _unknown),  # what is no number could not be written down
        # `unmerged_progress` reads the function from its own module, the others hold its name
        *((m, "is_finite", _always) for m in (exchanging, compute_version, state_arithmetic)),
    ]
    kept = [(module, name, getattr(module, name)) for module, name, _ in off]
    try:
        for module, name, instead in off:
            setattr(module, name, instead)
        yield
    finally:
        for module, name, before in kept:
            setattr(module, name, before)


def _admit(*_: object, **__: object) -> AdmissionVerdict:
    return ADMITTED


def _as_claimed(env_steps: int, new_steps: int, *_: object) -> tuple[int, int]:
    return env_steps, new_steps


def _unknown(_: StateDict) -> float:
    return 1.0


def _always(_: StateDict) -> bool:
    return True


@dataclass
class HostileGroup(LearnerGroup):
    """Four learners of which the last sends `lie`; the honest ones' weights are judged."""

    lie: str = "nan"
    gated: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for member in self.members:
            member.judged = member.peer != self.liar

    @property
    def liar(self) -> str:
        return f"slot-{self.workers - 1}"

    def sharing(self, peer: str) -> WeightExchange:
        if peer == self.liar:
            return PlainExchange(SharedPaths(self.root), peer, LIES[self.lie])
        return super().sharing(peer)

    def share(self, order: Sequence[Member]) -> None:
        with nullcontext() if self.gated else open_gate():
            super().share(order)

    def told(self) -> dict[str, Any]:
        """Return counts of merged, scaled and refused lies beside the group's own facts."""
        versions = read_history(SharedPaths(self.root)).versions
        taken = [put for version in versions for put in version.inputs if put.peer == self.liar]
        refused = [put for version in versions for put in version.refused if put.peer == self.liar]
        return {
            **super().told(),
            "lies_merged": len(taken),
            "lies_scaled_down": sum(put.clip < 1.0 for put in taken),
            "lies_refused": len(refused),
            "refused_because": refused[-1].reason if refused else "",
        }
