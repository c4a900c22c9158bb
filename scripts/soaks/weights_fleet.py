"""Four writers, two mergers, retention, a person: the product's own code on one folder.

In half of the schedules two of the writers are a friend's: they write in a folder of their own,
which the others only read. Uses torch, for weights of three numbers.
"""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from Daddy.core.errors import DaddyError
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.friend_job_exchange import JoinedExchange
from Daddy.weights.merge.cleanup import Sweeper
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.merge.merger import Merger
from Daddy.weights.rollback import roll_back
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange
from scripts.soaks.interleaver import Interleaver, Process
from scripts.soaks.invariant_checker import InvariantChecker

WRITERS, MERGERS, ROUNDS = 4, 2, 2
LOOKS = 20
FRIENDS = "friend"
"""Name of the friend's folder below the owner's; no file of the product has that name."""


def small(*values: float) -> StateDict:
    """Return weights of a few numbers: the size does not matter here."""
    return {"w": torch.tensor(values)}


@dataclass
class SkewedClock:
    """The schedule's time; the wall clock of each process is wrong by hours."""

    interleaver: Interleaver
    wrong_s: float

    def now(self) -> float:
        return 1_700_000_000.0 + self.interleaver.time + self.wrong_s

    def monotonic(self) -> float:
        return self.interleaver.time + self.wrong_s

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.interleaver.sleep(seconds)
        return stop.is_set()


class Silent:
    """An event writer that writes nothing."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Write nothing."""


class OnlyWrites(SharedExchange):
    """A writer that does not merge."""

    def _merge(self, period_s: float | None = None) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint: weights, totals, the exchange's note, steps before the run's first."""

    weights: StateDict
    env_steps: int
    updates: int
    note: bytes
    before: int


class Fleet:
    """The processes of one schedule; they share only the folder."""

    def __init__(
        self, root: str, interleaver: Interleaver, checker: InvariantChecker,
        settings: ExchangeSettings, *, all_merge: bool,
    ) -> None:  # fmt: skip
        self.paths, self._interleaver, self._checker = SharedPaths(Path(root)), interleaver, checker
        self._settings = settings
        self._exchange = SharedExchange if all_merge else OnlyWrites
        self._me = Friend("anna", f"{root}/{FRIENDS}", 0)  # all files here belong to root
        self._theirs = joined_paths(Path(self._me.folder), self.paths.root)
        self._with_friend = interleaver.by_chance(0.5)
        self._pause_s = interleaver.chance.choice([1.0, 30.0])
        self._saved: dict[str, Saved] = {}
        self._terms: dict[str, int] = {}

    def processes(self) -> list[Process]:
        """Return all processes, ready to run."""
        names = [f"slot-{k}" for k in range(WRITERS)]
        if self._with_friend:
            Path(self._me.folder).mkdir(parents=True)
            write_friends(self.paths, [self._me])
            names[2:] = [f"anna.slot-{k}" for k in range(2)]
        writers = [self._writer(name) for name in names]
        mergers = [self._merger(k) for k in range(MERGERS)]
        others = [Process("retention", self._retain)]
        if self._interleaver.by_chance(0.5):
            others.append(Process("person", self._go_back))
        return [*writers, *mergers, *others]

    def clock(self) -> SkewedClock:
        """Return a new clock for a process."""
        return SkewedClock(self._interleaver, self._interleaver.between(-20_000, 20_000))

    def _writer(self, name: str) -> Process:
        term = self._terms[name] = self._terms.get(name, 0) + 1
        return Process(
            f"{name}/{term}", lambda: self._write(name, term), lambda: self._writer(name)
        )

    def _merger(self, number: int, life: int = 1) -> Process:
        name = f"merger-{number}/{life}"
        return Process(name, lambda: self._merge(name), lambda: self._merger(number, life + 1))

    # -- what each does

    def _write(self, name: str, term: int) -> None:
        incarnation = f"{self._interleaver.chance.getrandbits(32):08x}"
        saved = self._saved.get(name)
        steps, updates = (saved.env_steps, saved.updates) if saved else (0, 0)
        try:
            exchange = self._begin(name, incarnation, term)
            begun = exchange.join_fleet(
                lambda: saved.weights if saved else small(0.0, 0.0, 0.0),
                saved.note if saved else None,
                steps,
                updates,
            )
        except (OSError, DaddyError):
            return  # it ends with an error; the next job of the slot tries again
        own = dict(begun.weights)
        before = saved.before if saved else self._checker.steps.get(name, 0)
        for _ in range(ROUNDS):
            own = add_deltas(own, small(*(self._interleaver.between(-1, 1) for _ in range(3))))
            steps, updates = steps + 100, updates + 10
            self._checker.made(name, before + steps)
            if self._interleaver.by_chance(0.3):
                self._saved[name] = Saved(own, steps, updates, exchange.resume_state(), before)
            said = exchange.publish(own, steps, updates)
            if said.startswith("contribution "):
                self._checker.promised.add((name, incarnation, int(said.split()[1])))
            if self._interleaver.by_chance(0.3):
                self._saved[name] = Saved(own, steps, updates, exchange.resume_state(), before)
            self._interleaver.sleep(self._interleaver.between(0.0, self._pause_s))
            if (adopted := exchange.adopt(own, steps, updates)) is not None:
                own = dict(adopted.weights)
        exchange.leave_fleet("it is done")

    def _begin(self, name: str, incarnation: str, term: int) -> SharedExchange:
        facts = (incarnation, self._settings, self.clock(), Silent())
        if "." in name:
            for _ in range(LOOKS):  # a friend begins nothing: it waits for the first version
                if Store(self._theirs).newest() is None:
                    self._interleaver.sleep(20.0)
            return JoinedExchange(self._theirs, name, *facts, term=term)
        return self._exchange(self.paths, name, *facts, term=term)

    def _merge(self, name: str) -> None:
        merger = Merger(Store(self.paths), self._settings, self.clock(), name)
        for _ in range(3 * ROUNDS):
            self._interleaver.sleep(self._interleaver.between(0.0, 20.0))
            try:
                merger.try_merge(self._settings.period_s)
            except (OSError, DaddyError):
                continue  # as a writer does: tried again at the next call

    def _go_back(self) -> None:
        """Roll back the newest versions, twice at most."""
        store, clock = Store(self.paths), self.clock()
        for _ in range(2):
            self._interleaver.sleep(self._interleaver.between(0.0, 200.0))
            with contextlib.suppress(OSError, DaddyError):  # as a person does: it is said again
                if newest := store.newest():
                    older = max(0, newest - self._interleaver.chance.randint(1, 3))
                    roll_back(store, older, "a person went back", clock)

    def _retain(self) -> None:
        store = Store(self.paths)
        clock = self.clock()
        reader = PeerReader(store, clock)
        sweeper = Sweeper(store, self._settings.keep_versions, StallTimer(clock), reader)
        for _ in range(5 * ROUNDS):  # longer than the others: what is left over gets old, too
            self._interleaver.sleep(self._interleaver.between(0.0, 200.0))
            try:
                if (newest := store.newest()) is not None:
                    record = store.version(newest)
                    peers = reader.read_peers(record)
                    sweeper.after_merge(record, [], peers)
                    sweeper.sweep_orphans(sweeper.needed_blobs(record, peers))
            except (OSError, DaddyError):
                continue
