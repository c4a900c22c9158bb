"""Steps of a real learner on a real shared folder, ended at every place, weigh and count once.

Each update moves every weight by the same amount per step, so the norm of a contribution tells from
how many steps it was learnt. A contribution must claim just these, and the total must be all steps.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning import loop, ppo
from Daddy.learning.checkpoint import load_newest
from Daddy.learning.loop import TrainingOutcome, train
from Daddy.weights.weight_exchange import SharedExchange
from scripts.version_history import read_history
from tests.learning.helpers import SCHEDULE, SETTINGS, FakeLease, cartpole_parts
from tests.weights import helpers
from tests.weights.crash_driver import MEMORY
from tests.weights.helpers import EventRecorder, ManualClock, Peer, shifted

ROLLOUT = 32
PER_STEP = 2.0**-12
SMALL = replace(SETTINGS, num_envs=8, horizon=4, bptt=4)
FAULTS = tuple(f"C{step}:{what}" for what in ("blob", "beat", "contribution") for step in (2, 5))
KILLS = ("C6", "C7", "C2:blob", "C5:contribution", "C8", "C10")
UNEVEN = 12
"""Looks for a reason to stop in two rollouts: a stop may come at any step of a rollout."""


class Killed(BaseException):
    """Ends a learner at once: no last contribution, no checkpoint."""


@dataclass(frozen=True)
class Job:
    """A job's life: it looks ``looks`` times for a reason to end, then leaves or is killed.

    ``fault``: a point of the exchange that fails; ``kill``: a point at which the job is killed;
    both at its ``turn``-th passing. ``others``: looks at which the other job makes a version.
    """

    looks: int
    killed: bool = False
    kill: str = ""
    fault: str = ""
    turn: int = 1
    offers: int = 1
    keeps: int = 1
    others: tuple[int, ...] = ()


@dataclass
class Fleet:
    """A run's folder with one slot's jobs, and the other job of the run."""

    root: Path
    staleness: int
    clock: ManualClock = field(default_factory=ManualClock)
    terms: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    other: Peer | None = None

    def live(self, job: Job) -> TrainingOutcome | None:
        """Run one job; None when it was killed, or could not join."""
        passed: dict[str, int] = {}
        looked = itertools.count(1)

        def hook(point: str) -> None:
            passed[point] = passed.get(point, 0) + 1
            if passed[point] == job.turn and point == job.kill:
                raise Killed
            if passed[point] == job.turn and point == job.fault:
                raise OSError(5, "Input/output error")

        def stop_reason() -> str | None:
            self.clock.pass_by(2.0)
            look = next(looked)
            for _ in range(job.others.count(look)):
                self.others_version()
            if look > job.looks and job.killed:
                raise Killed
            return "asked to" if look > job.looks else None

        term = next(self.terms)
        exchange = SharedExchange(
            SharedPaths(self.root / "shared"),
            "slot-0",
            new_incarnation(),
            helpers.settings(max_staleness=self.staleness),
            self.clock,
            EventRecorder(),
            hook,
            term=term,
        )
        stopper = type("Looks", (), {"stop_reason": staticmethod(stop_reason)})()
        schedule = replace(
            SCHEDULE,
            sync_interval=ROLLOUT * job.offers,
            checkpoint_interval=ROLLOUT * job.keeps,
            max_keep=9,
        )
        parts = cartpole_parts(
            self.root / "slot-0",
            settings=SMALL,
            schedule=schedule,
            exchange=exchange,
            lease=FakeLease(term),
            stopper=stopper,
            clock=self.clock,
        )
        try:
            return train(parts)
        except (Killed, OSError):  # a disk that fails while a job joins ends the job
            return None

    def others_version(self) -> None:
        """Let the other job learn, offer and merge; it joins at the first call."""
        if self.other is None:
            own = dict(cartpole_parts(self.root, settings=SMALL).policy.state_dict())
            self.other = helpers.begin(self.root / "shared", "slot-1", self.clock, own=own)
        steps = 4 * ROLLOUT
        self.other.weights = shifted(self.other.weights, steps * PER_STEP)
        self.other.env_steps += steps
        self.other.updates += 4
        self.other.publish()
        self.clock.pass_by(30.0)
        self.other.adopt()

    def check(self) -> None:
        """Assert that each contribution claims the steps of its change, and the total all steps."""
        versions = read_history(SharedPaths(self.root / "shared")).versions
        loaded = load_newest(self.root / "slot-0")
        assert loaded is not None
        policy = loaded.checkpoint.tensors
        width = math.sqrt(
            sum(v.numel() for name, v in policy.items() if name.startswith("policy."))
        )
        merged = [entry for version in versions for entry in version.inputs]
        for entry in (entry for entry in merged if entry.peer == "slot-0"):
            learnt = entry.norm / width / PER_STEP
            assert entry.env_steps == pytest.approx(learnt, rel=0.01), entry
            assert entry.optimizer_steps * ROLLOUT == entry.env_steps
        assert versions[-1].contributors.get("slot-0", 0) == loaded.checkpoint.step


def learn_evenly(self: ppo.PpoUpdater, *_: object) -> dict[str, float]:
    """Move every weight by ``PER_STEP`` for each step of the rollout."""
    with torch.no_grad():
        for tensor in self.policy.parameters():
            tensor.add_(ROLLOUT * PER_STEP)
    self.optimizer.steps += 1
    return {"skipped_minibatches": 0.0}


JOBS = st.builds(
    Job,
    looks=st.integers(0, 2 * UNEVEN),
    killed=st.booleans(),
    kill=st.sampled_from(("", "", *KILLS)),
    fault=st.sampled_from(("", *FAULTS)),
    turn=st.integers(1, 3),
    offers=st.integers(1, 3),
    keeps=st.integers(1, 3),
    others=st.lists(st.integers(1, 2 * UNEVEN), max_size=3).map(tuple),
)


@settings(max_examples=8, phases=(Phase.explicit, Phase.generate))
@given(jobs=st.lists(JOBS, min_size=1, max_size=3), staleness=st.sampled_from((1, 16)))
@example(jobs=[Job(looks=8, offers=9)], staleness=16)  # a checkpoint, then a stop before its next
@example(jobs=[Job(looks=8, offers=9, fault="C5:contribution"), Job(looks=20)], staleness=16)
@example(jobs=[Job(looks=8, offers=9, kill="C7"), Job(looks=20, offers=2)], staleness=16)
@example(jobs=[Job(looks=20, offers=9, others=(19, 19, 19))], staleness=1)  # its offer is late
def test_steps_weigh_and_count_once_wherever_jobs_end(jobs: list[Job], staleness: int) -> None:
    with (
        TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(ppo.PpoUpdater, "update", learn_evenly)
        patch.setattr(loop, "fit_critic_if_better", lambda *_: False)
        fleet = Fleet(Path(folder), staleness)
        first, last = Job(looks=0), Job(looks=2 * UNEVEN)  # both leave in good order
        for job in (first, *jobs, last):
            fleet.live(job)
        for _ in range(3):
            fleet.others_version()
        fleet.check()
