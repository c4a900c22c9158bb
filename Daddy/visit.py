"""A laptop's visit to a run: who comes, with what, and why it ends. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stopping import StopSignal


@dataclass
class Limits:
    """The laptop's place and its reasons to leave: a signal, or the steps or seconds asked for."""

    max_steps: int
    max_seconds: float
    clock: Clock
    signals: StopSignal
    term: int = 1
    steps: int = 0
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock.monotonic()

    def held(self) -> bool:
        """Nobody takes a laptop's place away."""
        return True

    def beat(self, data: Mapping[str, object]) -> None:
        """Remember how far we are."""
        self.steps = int(str(data.get("env_steps", self.steps)))

    def stop_reason(self) -> str | None:
        """Why to leave now; None to go on."""
        if 0 < self.max_steps <= self.steps:
            return f"{self.max_steps} steps, as asked"
        if 0 < self.max_seconds <= self.clock.monotonic() - self.begun:
            return f"{self.max_seconds:g} s, as asked"
        return self.signals.stop_reason()


@dataclass(frozen=True)
class Visit:
    """Who visits which run, with what, and how long.

    ``push``: hand in what was learnt. ``stream_port`` None: nothing is shown.
    """

    config: Config
    user_id: str
    shared: Path
    run: RunPaths
    run_name: str
    limits: Limits
    clock: Clock
    contribute: bool
    push: bool
    niceness: int
    stream_port: int | None
