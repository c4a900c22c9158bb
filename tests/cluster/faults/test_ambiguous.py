"""Tests 500 unanswered submissions: their jobs appear at once, within ten minutes, or never.

The controller is killed again and again: between any two durable steps in virtual time, and as a
real process by SIGKILL.
"""

import os
import random
import signal
import time
from collections import Counter

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from tests.cluster.faults.site import Login, Site, VirtualClock

EACH = 100
LATEST_S = 600.0


class Killed(BaseException):
    """Simulates SIGKILL."""


class RandomFaults:
    """Draws random faults of sbatch, and random kills of the controller."""

    def __init__(self, site: Site, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = site
        self.rng = random.Random(seed)
        self.drawn: Counter[str] = Counter()
        self.kills = 0
        self.calm = False
        append = LedgerFile.append

        def fragile(ledger: LedgerFile, entry) -> None:
            self._die(0.02)
            append(ledger, entry)
            self._die(0.02)

        monkeypatch.setattr(LedgerFile, "append", fragile)

    def _die(self, chance: float) -> None:
        if not self.calm and self.rng.random() < chance:
            self.kills += 1
            raise Killed

    def draw(self) -> None:
        """Make the next sbatch unanswered; its job appears now, later or never."""
        if self.site.memory is not None and self.site.memory["faults"]:
            return
        kind = self.rng.choice(["at once", "later", "never"])
        self.drawn[kind] += 1
        appears = {"at once": 0.0, "later": self.rng.uniform(1.0, LATEST_S), "never": None}[kind]
        self.site.fault("sbatch", "time out", appears=appears)

    def wrap(self, login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kill the controller before or after a call of sbatch."""
        scheduler = login.start().applier.scheduler
        submit = scheduler.submit

        def fragile(spec):
            self.draw()
            self._die(0.1)
            answer = submit(spec)
            self._die(0.2)
            return answer

        monkeypatch.setattr(scheduler, "submit", fragile)


def live_jobs(site: Site) -> int:
    return sum(1 for job in site.jobs("PENDING", "RUNNING") if job["visible"] <= site.true)


@pytest.mark.parametrize(
    ("site", "cap", "seed"),
    [
        ("pool", 4, 0),
        ("pool", 4, 1),
        ("chain", 4, 4),
        ("chain", None, 6),
        ("pool", None, 9),
    ],
    indirect=["site"],
)
def test_a_hundred_ambiguous_submissions_train_no_slot_twice_and_lose_none(
    site: Site, monkeypatch: pytest.MonkeyPatch, cap: int | None, seed: int
) -> None:
    """Check that no slot trains twice, also where six jobs may run at once."""
    site.cap = cap
    login = Login(site, settings={"slurm": {"time_limit": "0:06:00"}})
    faults = RandomFaults(site, seed, monkeypatch)
    most = login.slots + ControllerPolicy().spares + ControllerPolicy().extra
    surplus_after_a_pass = most_training = 0
    while sum(faults.drawn.values()) < EACH:
        if login.controller is None:
            faults.wrap(login, monkeypatch)
        try:
            wait = login.one_pass()
            surplus_after_a_pass = max(surplus_after_a_pass, live_jobs(site) - most)
        except Killed:
            login.controller, wait = None, faults.rng.uniform(1.0, 120.0)
        end = site.true + wait
        while site.true < end and not site.changed:
            site.tick(min(site.grain_s, end - site.true))
            most_training = max(most_training, site.training)
        site.tick(2.0)
    _judge(site, login, faults, surplus_after_a_pass, most_training)


def _judge(
    site: Site, login: Login, faults: RandomFaults, surplus: int, most_training: int
) -> None:
    faults.calm = True
    with site.state() as state:
        state["faults"].clear()
    login.start()
    login.drive(1800.0)
    if site.cap is not None:
        assert site.most_running <= 4
    assert most_training <= 4
    assert surplus <= 0, "surplus jobs are gone within one pass"
    assert site.twice() == []
    assert site.training == 4, f"a slot is lost: {login.status()['reasons']}"
    assert faults.kills >= 10
    assert min(faults.drawn.values()) >= 15
    login.intend(Mode.DRAIN)
    login.drive(LATEST_S + 300.0)
    assert site.jobs("PENDING", "RUNNING") == []
    assert login.mode is Mode.STOPPED
    assert site.twice() == []


class FileClock(VirtualClock):
    """Reads the site's time from a file, for other processes."""

    def now(self) -> float:
        return float((self._site.folder / "now").read_text() or 0)

    def monotonic(self) -> float:
        return self.now()


KILLS = 12


def test_twelve_real_sigkills_in_the_middle_of_submissions(shims: Site) -> None:
    """Kill a forked controller, whose commands are real processes, at random times."""
    rng = random.Random(7)
    login = Login(shims, settings={"slurm": {"time_limit": "0:06:00"}})
    login.intend(Mode.RUN)
    for _ in range(KILLS):
        _script(shims, rng)
        child = _fork_controller(login)
        until = time.monotonic() + rng.uniform(0.02, 0.3)
        while time.monotonic() < until:
            shims.tick(5.0)
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        shims.tick(rng.uniform(1.0, 60.0))
    time.sleep(0.2)  # time for an sbatch that outlived its controller
    with shims.state() as state:
        state["faults"].clear()
    login.start()
    login.drive(900.0)
    assert shims.most_running <= 4
    assert shims.twice() == []
    assert shims.training == 4
    assert len({job["name"] for job in shims.jobs()}) == len(shims.jobs())
    assert {job["name"].rsplit("-", 1)[-1] for job in shims.jobs()} <= {
        entry.token for entry in login.kinds("intent")
    }, "every job was intended first"


def _script(site: Site, rng: random.Random) -> None:
    with site.state() as state:
        state["faults"][:] = [
            {"on": "sbatch", "do": "time out", "appears": rng.choice([0.0, 60.0, 600.0, None])}
            for _ in range(3)
        ]


def _fork_controller(login: Login) -> int:
    """Run a process that makes passes until it is killed."""
    child = os.fork()
    if child:
        return child
    try:
        login.site.clock = FileClock(login.site)
        controller = login.start()
        while True:
            with controller._surviving("a pass"):
                controller.make_pass()
            time.sleep(0.01)
    finally:
        os._exit(1)
