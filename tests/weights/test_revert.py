"""A bad contribution is merged, the pairs show it, and a version without it takes it back."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console

from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.history import read_history
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.receipts import read_receipts
from Daddy.weights.polyak import StateDict
from Daddy.weights.records.probation import BETWEEN_REVERTS
from Daddy.weights.replay import replay
from Daddy.weights.revert.evaluations import Evaluation, box_file, fixed_starts
from Daddy.weights.revert.examining import Examiner
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store
from Daddy.weights.views.lineage import from_records
from Daddy.weights.views.lines import lines
from Daddy.weights.views.run_report import report_run
from Daddy.weights.views.screen import draw
from tests.weights.helpers import Peer, ToldClock, begin, close, make_state, shifted

POISON = 0.07
"""How far the bad contribution moves one weight: small enough for the gate, ruinous in the game."""


def lopsided(state: StateDict) -> float:
    """How far the first bias left the others, which honest learners move together."""
    moved = state["core.bias"] - make_state()["core.bias"]
    return float(moved[0] - moved[1:].mean())


def play(ours: StateDict, theirs: StateDict, seed: int) -> tuple[float, float]:
    """A game whose return falls with the distance from where the run began, and is luck besides."""
    luck = torch.Generator().manual_seed(seed)
    hard, one, other = torch.randn(3, generator=luck).tolist()

    def score(state: StateDict, dice: float) -> float:
        away = float((state["core.weight"] - make_state()["core.weight"]).abs().mean())
        away += 200.0 * abs(lopsided(state))
        return 100.0 * math.exp(0.7 * hard + 0.3 * dice - away)

    return score(ours, one), score(theirs, other)


@dataclasses.dataclass
class Run:
    """Jobs that sync in turn on one folder, and what became of it."""

    root: Path
    clock: ToldClock
    peers: list[Peer]

    @property
    def store(self) -> Store:
        return Store(SharedPaths(self.root))

    @property
    def head(self) -> Version:
        store = self.store
        newest = store.newest()
        assert newest is not None
        return store.version(newest)

    @property
    def weights(self) -> StateDict:
        return decode(self.store.get_blob(self.head.state))

    def round(self, *, poison: float = 0.0) -> Version:
        """Each job learns a little, all publish, one merges, all adopt; the first may go astray."""
        self.peers[0].weights["core.bias"][0] += poison
        for peer in self.peers:
            peer.shift(0.01)
            peer.publish()
        self.clock.pass_by(10.0)
        for peer in self.peers:
            peer.adopt()
        return self.head

    def reverting(self) -> Version | None:
        """The newest version that takes others back."""
        store = self.store
        found = (store.version(number) for number in range(self.head.version, -1, -1))
        return next((one for one in found if one.reverts), None)

    def examine(self, pairs: int = 64) -> None:
        """The first job's examiner plays so many pairs, or until nothing is left to play."""
        examiner = Examiner(self.store, "slot-0", self._incarnation(), 100, play)
        for _ in range(pairs):
            if examiner.examine() is None:
                break

    def _incarnation(self) -> str:
        number = sum(1 for _ in (self.root / "peers" / "slot-0").iterdir())
        return f"{number:08x}"


def started(root: Path, jobs: int = 2, **changes: object) -> Run:
    clock = ToldClock()
    return Run(root, clock, [begin(root, f"slot-{k}", clock, **changes) for k in range(jobs)])


def until_held_good(run: Run, version: int) -> None:
    """Rounds and pairs until ``version`` or a later one is held good."""
    for _ in range(6):
        if run.head.probation.good >= version:
            return
        run.examine()
        run.round()
    raise AssertionError(f"v{version} is not held good: {run.head.probation}")


def poisoned(root: Path, **changes: object) -> tuple[Run, int, int]:
    """A run in which one job's bad contribution lies in the version on probation."""
    run = started(root, **changes)
    until_held_good(run, 1)
    good = run.head.probation.good
    run.round(poison=POISON)
    return run, good, run.head.version


def on_trial(run: Run, bad: int) -> Version:
    """Rounds, with pairs in between, until the bad version or one after it was taken back."""
    for _ in range(8):
        if (found := run.reverting()) is not None:
            return found
        run.examine()
        run.round()
    raise AssertionError(f"v{bad} was not taken back: {run.head.probation}")


def test_a_bad_version_is_found_and_taken_back_by_a_new_one(tmp_path):
    run, good, bad = poisoned(tmp_path)
    reverting = on_trial(run, bad)
    (revert,) = reverting.reverts
    assert revert.first <= bad <= revert.last == reverting.version - 1
    assert revert.good >= good
    assert reverting.base == revert.good
    assert "it plays worse" in revert.reason
    assert read_history(SharedPaths(tmp_path)).chained
    assert replay(run.store, reverting) == run.store.get_blob(reverting.state)
    assert abs(lopsided(run.weights)) < 1e-4  # of the poison nothing is left


def test_jobs_on_what_was_taken_back_take_the_new_one_plainly_and_go_on(tmp_path):
    run, _, bad = poisoned(tmp_path)
    reverting = on_trial(run, bad)
    for peer in run.peers:
        peer.adopt()
        assert peer.version == run.head.version
        assert abs(lopsided(peer.weights)) < 1e-4
    run.round()
    later = range(reverting.version + 1, run.head.version + 1)
    inputs = [one for number in later for one in run.store.version(number).inputs]
    assert {one.peer for one in inputs} == {"slot-0", "slot-1"}
    assert all(one.base_version >= reverting.version for one in inputs)
    assert run.head.fleet_steps > reverting.fleet_steps
    assert abs(lopsided(run.weights)) < 1e-4


def test_the_merger_says_that_it_reverted_and_why(tmp_path):
    run, _, bad = poisoned(tmp_path)
    reverting = on_trial(run, bad)
    (said,) = [one for peer in run.peers for one in peer.told.of("reverted")]
    assert said["version"] == reverting.version
    assert "it plays worse" in str(said["reason"])
    assert any(str(name).startswith("slot-0/") for name in said["without"])


def test_what_was_offered_on_a_base_that_is_taken_back_is_refused_without_blame(tmp_path):
    run, _, bad = poisoned(tmp_path)
    late = begin(tmp_path, "slot-7", run.clock)  # stands on the bad version, and is slow
    late.shift(0.01)
    late.publish()
    reverting = on_trial(run, bad)
    run.round()
    refused = [one for n in range(reverting.version, run.head.version + 1)
               for one in run.store.version(n).refused if one.peer == "slot-7"]  # fmt: skip
    merged = [one for n in range(bad, reverting.version)
              for one in run.store.version(n).inputs if one.peer == "slot-7"]  # fmt: skip
    assert len(refused) + len(merged) == 1
    assert all(one.fault == "reverted" for one in refused)
    assert late.adopt() == run.head.version
    assert close(late.weights, run.weights)


def test_a_successor_of_a_job_on_what_was_taken_back_begins_with_the_new_version(tmp_path):
    run, _, bad = poisoned(tmp_path)
    note, own = run.peers[1].exchange.bookkeeping(), run.peers[1].weights
    on_trial(run, bad)
    again = begin(tmp_path, "slot-1", run.clock, resumed=note, own=shifted(own, 0.5))
    assert close(again.weights, run.weights)
    assert again.version == run.head.version


def test_a_second_revert_waits_and_no_version_is_taken_back_twice(tmp_path):
    run, _, bad = poisoned(tmp_path)
    first = on_trial(run, bad)
    until_held_good(run, first.version + 1)
    run.round(poison=POISON)
    for _ in range(3 * BETWEEN_REVERTS):
        run.examine()
        run.round()
    reverts = [one for one in read_history(SharedPaths(tmp_path)).versions if one.reverts]
    assert len(reverts) == 2
    assert reverts[1].version - reverts[0].version >= BETWEEN_REVERTS
    assert reverts[1].reverts[0].first > reverts[0].reverts[0].last


@pytest.mark.parametrize("rule", ["delta", "polyak"])
def test_where_the_inputs_are_gone_the_one_held_good_comes_back_as_it_was(tmp_path, rule):
    run, _, bad = poisoned(tmp_path, rule=rule)
    run.examine()
    good = run.head.probation.good
    for number in range(good + 1, run.head.version + 1):
        for one in run.store.version(number).inputs:
            run.store.paths.blob(one.blob).unlink(missing_ok=True)
    reverting = on_trial(run, bad)
    assert reverting.replayed == ()
    assert reverting.state == run.store.version(reverting.reverts[0].good).state


class Home:
    """A laptop of its own folder, whose pull and push are links and renames."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name, self.local = run, name, run.root.parent / name
        self.local.mkdir()
        for folder in ("wan", "receipts"):
            (self.local / folder).symlink_to(run.root / folder)
        clock = run.clock
        self.exchange = LaptopExchange(self.local, name, "0a0a0a0a", clock, min_seconds=0)
        self.weights = dict(self.exchange.begin(make_state, None).weights)

    def contribute(self, own: StateDict, steps: int) -> None:
        self.exchange.publish(own, steps, 10)
        box = self.run.root / "inbox" / self.name
        box.mkdir(parents=True, exist_ok=True)
        for ending in ("*.st", "*.json"):
            for path in sorted((self.local / "outbox" / self.name).glob(ending)):
                path.rename(box / path.name)


def test_a_bad_contribution_of_a_laptop_goes_and_the_jobs_of_its_version_are_added_again(tmp_path):
    run = started(tmp_path / "shared")
    until_held_good(run, 1)
    home = Home(run, "anna")
    crooked = {name: one.clone() for name, one in home.weights.items()}
    crooked["core.bias"][0] += POISON
    home.contribute(crooked, 100)
    run.round()
    versions = read_history(SharedPaths(run.root)).versions
    (bad,) = [one.version for one in versions if "anna" in {each.peer for each in one.inputs}]
    reverting = on_trial(run, bad)
    (revert,) = reverting.reverts
    assert revert.without == ("anna/0a0a0a0a/1",)
    assert {one.peer for one in reverting.replayed} <= {"slot-0", "slot-1"}
    assert reverting.replayed
    assert all(one.base_version <= revert.good for one in reverting.replayed)
    assert reverting.probation.trial == reverting.version  # what was added again is looked at, too
    assert replay(run.store, reverting) == run.store.get_blob(reverting.state)
    assert abs(lopsided(run.weights)) < 1e-4
    assert run.weights["core.weight"].mean() > make_state()["core.weight"].mean()
    told = read_receipts(home.local, "anna")
    assert [(one.accepted, one.fault) for one in told] == [(True, ""), (False, "reverted")]
    assert "it is under suspicion" in told[1].reason
    adopted = home.exchange.adopt(crooked)
    assert adopted is not None
    assert adopted.version == run.head.version
    assert "was taken back" in adopted.reason
    assert close(dict(adopted.weights), run.weights, 0.02)  # bfloat16


def test_a_laptop_that_says_every_version_is_bad_takes_nothing_back(tmp_path):
    run = started(tmp_path)
    until_held_good(run, 1)
    asked = []
    for number in range(1, 24):
        head, store = run.head, run.store
        lie = Evaluation(
            run_id=head.run_id,
            peer="mallory",
            incarnation="01234567",
            sequence=number,
            version=head.version,
            state=head.state,
            reference=head.version - 1,
            reference_state=store.version(head.version - 1).state,
            pairs=tuple((seed, 0.0, 1e9) for seed in fixed_starts(head.run_id, 512)),
            episode_steps=100,
        )
        box = tmp_path / "inbox" / "mallory"
        box.mkdir(parents=True, exist_ok=True)
        (box / box_file(lie)).write_bytes(lie.to_bytes())
        run.examine(4)
        asked.append(run.round().probation.asked_by)
    versions = read_history(SharedPaths(tmp_path)).versions
    assert not any(one.reverts for one in versions)
    assert "mallory" in asked  # it was looked into
    began = {one.probation.since for one in versions if one.probation.asked_by}
    assert len(began) == 1  # once, although it shouted in every version
    assert len(list((tmp_path / "inbox" / "mallory").iterdir())) <= 17


def test_two_mergers_with_the_same_pairs_make_the_same_bytes(tmp_path):
    from Daddy.weights.revert.evidence import look
    from Daddy.weights.revert.reverting import taken_back

    run, _, _ = poisoned(tmp_path)
    for _ in range(8):
        run.examine()
        if look(run.store, run.head).bad:
            break
        run.round()
    step = look(run.store, run.head)
    assert step.bad
    made = [taken_back(run.store, run.head, step) for _ in range(2)]
    assert made[0][0] == made[1][0]
    assert encode(made[0][1]) == encode(made[1][1])


def test_the_log_names_what_was_taken_back_and_why(tmp_path):
    run, _, bad = poisoned(tmp_path)
    reverting = on_trial(run, bad)
    (line,) = [one for one in lines(from_records([reverting], {}, {})) if "took back" in one]
    assert "without slot-0/" in line
    assert "it plays worse" in line


def test_the_status_tells_what_is_on_trial_what_the_pairs_say_and_what_was_taken_back(tmp_path):
    run, good, bad = poisoned(tmp_path)
    run.examine(4)
    told = report_run(SharedPaths(tmp_path), run.clock.now())
    assert told["probation"]["good"] == good
    assert good < told["probation"]["trial"] <= bad
    assert told["probation"]["pairs"] == 4
    assert told["reverted"] == []
    assert f"v{told['probation']['trial']} against v{good}: not yet known" in shown(told)
    reverting = on_trial(run, bad)
    told = report_run(SharedPaths(tmp_path), run.clock.now())
    (revert,) = told["reverted"]
    assert revert["version"] == reverting.version
    assert revert["first"] <= bad <= revert["last"]
    assert f"v{reverting.version} took back v{revert['first']} to v{revert['last']}" in shown(told)
    assert "it plays worse" in shown(told)


def shown(told: dict) -> str:
    """The screen as lines of text."""
    console = Console(width=300)
    with console.capture() as text:
        console.print(draw(told, told["ts"]))
    return text.get()
