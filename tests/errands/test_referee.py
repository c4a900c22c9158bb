"""A laptop compares versions from the run's fixed starts: real weights, a real environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.core.config import load
from Daddy.core.names import new_incarnation
from Daddy.core.settings import Config
from Daddy.core.shared_paths import SharedPaths
from Daddy.errands.errand import Sender
from Daddy.errands.referee import MOST_PAIRS, SHARE, Referee
from Daddy.learning.commentary import Commentary
from Daddy.learning.solo import NoFrames
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.laptop.pull_push import pull, push
from Daddy.weights.polyak import StateDict
from Daddy.weights.revert.evaluations import evaluations_in_boxes, fixed_starts
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store.store import Store
from Daddy.workloads import WORKLOADS
from tests.weights.folder import FolderCarrier
from tests.weights.helpers import Told, ToldClock

ANNA = Sender("anna", "0000000a")


class Run:
    """A job that commits versions of a real policy, and the folder a laptop pulls into."""

    def __init__(self, root: Path, config: Config) -> None:
        self.local, self.carrier = root / "laptop", FolderCarrier(root / "shared")
        self.store = Store(SharedPaths(root / "shared"))
        row = WORKLOADS[config.training.workload]
        env = row.make_env(config)()
        torch.manual_seed(1)
        policy = row.make_policy(env.observation_space, env.action_space)
        env.close()
        asked = ExchangeSettings(run="r", workload=row.name, period_s=0.001)
        facts = (SharedPaths(root / "shared"), "slot-0", new_incarnation(), asked)
        self._job = SharedExchange(*facts, SystemClock(), Told())
        first = {name: one.detach().clone() for name, one in policy.state_dict().items()}
        self._weights = dict(self._job.begin(lambda: first, None).weights)
        self._steps = 0

    def version(self, move: StateDict | None = None) -> None:
        """One more, pulled too; `move` is added to the weights."""
        self._steps += 100
        own = {name: one + (move or {}).get(name, 0) for name, one in self._weights.items()}
        self._job.publish(own, self._steps, self._steps)
        while (adoption := self._job.adopt(own)) is None:
            pass
        self._weights = dict(adoption.weights)
        pull(self.carrier, self.local, SystemClock())


@pytest.fixture
def config() -> Config:
    return load(None, {"training.workload": "cartpole", "training.episode_steps": 60})


@pytest.fixture
def run(tmp_path: Path, config: Config) -> Run:
    made = Run(tmp_path, config)
    pull(made.carrier, made.local, SystemClock())
    return made


class Bench:
    def __init__(self, run: Run, config: Config, sender: Sender | None = ANNA) -> None:
        self.clock, self.told, self.stop = ToldClock(), list[Mapping[str, object]](), [False]
        where = (run.local, config, sender, self.clock, self.told.append)
        self.referee = Referee(*where, lambda: self.stop[0])

    def plays(self, times: int = 1) -> None:
        for _ in range(times):
            self.referee.once()
            self.clock.pass_by(1.0)


def test_there_is_nothing_to_compare_with_one_version(run: Run, config: Config) -> None:
    bench = Bench(run, config)
    bench.plays(3)
    assert bench.told == []


def test_pairs_travel_to_the_run_and_are_told_to_the_owner(run: Run, config: Config) -> None:
    run.version()
    bench = Bench(run, config)
    bench.plays(3)
    assert push(run.carrier, run.local, SystemClock()) == 3
    found = [one for _, one in evaluations_in_boxes(run.store)]
    assert [(one.version, one.reference, one.peer) for one in found] == [(1, 0, "anna")] * 3
    assert found[0].state == run.store.version(1).state
    assert found[0].reference_state == run.store.version(0).state
    starts = [pair[0] for one in found for pair in one.pairs]
    assert len(set(starts)) == 3
    assert set(starts) <= set(fixed_starts(found[0].run_id, 512))
    assert [one["starts"] for one in bench.told] == [1, 2, 3]


def test_equal_weights_from_one_start_have_equal_returns(run: Run, config: Config) -> None:
    run.version()  # nothing moved
    bench = Bench(run, config)
    bench.plays(4)
    assert [(one["mean"], one["low"]) for one in bench.told[1:]] == [(0.0, 0.0)] * 3


def test_a_version_that_is_worse_is_seen_to_be(run: Run, config: Config) -> None:
    run.version()
    bias = next(name for name, one in run._weights.items() if one.shape == (2,))
    run.version({bias: torch.tensor([50.0, -50.0])})  # always the same way: the pole falls at once
    bench = Bench(run, config)
    bench.plays(24)
    last = bench.told[-1]
    assert (last["version"], last["reference"]) == (2, 1)
    assert float(str(last["high"])) < 0


def test_playing_only_shows_and_hands_in_nothing(run: Run, config: Config) -> None:
    run.version()
    bench = Bench(run, config, sender=None)
    bench.plays()
    assert len(bench.told) == 1
    assert not (run.local / "outbox").exists()


def test_two_versions_are_compared_to_the_end_then_the_newest(run: Run, config: Config) -> None:
    run.version()
    bench = Bench(run, config)
    bench.plays()
    run.version()
    run.version()
    bench.plays(MOST_PAIRS)
    compared = [(one["version"], one["reference"]) for one in bench.told]
    assert compared == [(1, 0)] * MOST_PAIRS + [(3, 2)]
    bench.plays(2 * MOST_PAIRS)
    assert len(bench.told) == 2 * MOST_PAIRS  # and then it waits for another version


def test_it_rests_four_times_as_long_as_it_plays(run: Run, config: Config) -> None:
    run.version()
    bench = Bench(run, config)
    game = bench.referee._game()
    step = game.step

    def slow(action: int):
        bench.clock.pass_by(1.0)
        return step(action)

    game.step = slow
    bench.referee.once()
    played = bench.clock.time - 1_000.0
    assert played > 2
    bench.clock.pass_by(played / SHARE - played - 0.5)
    bench.referee.once()
    assert len(bench.told) == 1
    bench.clock.pass_by(1.0)
    bench.referee.once()
    assert len(bench.told) == 2


def test_asked_to_stop_it_leaves_the_episode_and_tells_nothing(run: Run, config: Config) -> None:
    run.version()
    bench = Bench(run, config)
    game = bench.referee._game()
    step, steps = game.step, []

    def watched(action: int):
        steps.append(action)
        bench.stop[0] = True
        return step(action)

    game.step = watched
    bench.referee.once()
    assert (len(steps), bench.told) == (1, [])
    assert not (run.local / "outbox").exists()


def test_the_owner_reads_who_played_better_on_how_many_starts() -> None:
    lines = list[str]()
    voice = Commentary(Told(), NoFrames(), ToldClock(), lines.append)
    facts = {"state": "evaluated", "version": 57, "reference": 52, "starts": 12}
    voice.write("state", 0, {**facts, "mean": 3.1, "low": 1.0, "high": 5.2})
    voice.write("state", 0, {**facts, "starts": 1, "mean": 3.1, "low": None, "high": None})
    assert lines[0] == "v57 against v52 on 12 starts: +3.10 [+1.00, +5.20]"
    assert lines[1] == "v57 against v52 on 1 start: +3.10"
    assert "2 pairs of versions compared" in voice.farewell("done")
