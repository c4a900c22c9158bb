"""Helpers for tests of shared weights: states, exchanges, a manual clock, an event recorder."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.weight_exchange import SharedExchange


@dataclass
class ManualClock:
    """A clock that moves only when a test moves it, or during a wait."""

    time: float = 1_000.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.time += seconds
        return stop.is_set()

    def pass_by(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class EventRecorder:
    """Keeps events in a list."""

    events: list[tuple[str, int, dict[str, object]]] = field(default_factory=list)

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        self.events.append((event, step, dict(data)))

    def with_state(self, state: str) -> list[dict[str, object]]:
        return [data for _, _, data in self.events if data.get("state") == state]


def make_state(seed: int = 0, size: int = 3) -> StateDict:
    generator = torch.Generator().manual_seed(seed)
    return {
        "core.weight": torch.randn(size, 4, generator=generator),
        "core.bias": torch.randn(size, generator=generator),
        "steps": torch.tensor([seed], dtype=torch.int64),
    }


def perturbed(state: StateDict, seed: int, scale: float = 0.1) -> StateDict:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + scale * torch.randn(tensor.shape, generator=generator)
        if tensor.is_floating_point()
        else tensor.clone()
        for name, tensor in state.items()
    }


def shifted(state: StateDict, by: float) -> StateDict:
    return {
        n: tensor + by if tensor.is_floating_point() else tensor.clone()
        for n, tensor in state.items()
    }


def close(a: StateDict, b: StateDict, tolerance: float = 1e-5) -> bool:
    return a.keys() == b.keys() and all(
        torch.allclose(a[n].double(), b[n].double(), rtol=0, atol=tolerance) for n in a
    )


def settings(**changes: object) -> ExchangeSettings:
    return ExchangeSettings(**{"run": "test", "workload": "cartpole", "period_s": 5.0, **changes})


@dataclass
class Peer:
    """A learner without learning: an exchange, and weights that the test changes."""

    exchange: SharedExchange
    recorder: EventRecorder
    weights: StateDict
    incarnation: str
    env_steps: int = 0
    updates: int = 0
    version: int = -1

    def learn(self, seed: int, steps: int = 100, scale: float = 0.1) -> None:
        self.weights = perturbed(self.weights, seed, scale)
        self.env_steps += steps
        self.updates += 10

    def shift(self, by: float, steps: int = 100) -> None:
        self.weights = shifted(self.weights, by)
        self.env_steps += steps
        self.updates += 10

    def publish(self) -> str:
        return self.exchange.publish(self.weights, self.env_steps, self.updates)

    def adopt(self) -> int | None:
        adoption = self.exchange.adopt(self.weights, self.env_steps, self.updates)
        if adoption is None:
            return None
        self.weights, self.version = dict(adoption.weights), adoption.version
        return adoption.version


def begin(
    root: Path,
    name: str,
    clock: ManualClock,
    *,
    seed: int = 0,
    hook: Hook = no_hook,
    resumed: bytes | None = None,
    own: StateDict | None = None,
    totals: tuple[int, int] = (0, 0),
    **changes: object,
) -> Peer:
    recorder, incarnation = EventRecorder(), new_incarnation()
    exchange = SharedExchange(
        SharedPaths(root), name, incarnation, settings(**changes), clock, recorder, hook
    )
    adoption = exchange.join_fleet(lambda: own or make_state(seed), resumed, *totals)
    weights = dict(adoption.weights)
    return Peer(exchange, recorder, weights, incarnation, *totals, version=adoption.version)
