"""Simulates a cluster for the real controller: the shim's queue, real leases, virtual time.

``Site`` is the cluster: it starts waiting jobs, which claim a slot as the launcher does, write
heartbeats and checkpoints, drain, crash or hang. ``Login`` is the login node with the real
controller and ledger, which tests kill and start again. Nothing sleeps.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator import controller_wiring, slurm_commands
from Daddy.cluster.orchestrator.control_files import DesiredRun, read_intent, write_intent
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.controller_types import Ledger, Mode
from Daddy.cluster.orchestrator.ledger_file import LedgerFile, read_entries
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.event_log import read_events
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.load_config import config_to_json
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import Completed, ProcessTimeoutError
from Daddy.core.settings import Config
from tests.cluster.faults import shim

BEGIN = 1_700_000_000.0
HOUR = 3600.0
PATIENCE_S = 130.0
"""Seconds that a launcher waits for a slot that may become free."""
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")


def token_of(job: Mapping[str, Any]) -> str:
    """Return the token in a job's name."""
    return str(job["name"].rsplit("-", 1)[-1])


class VirtualClock:
    """The login node's clock, which may be wrong by ``skew``; ``Site.true`` is the real time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.skew = 0.0

    def now(self) -> float:
        return self._site.true + self.skew

    def monotonic(self) -> float:
        return self._site.true - BEGIN

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self._site.tick(seconds)
        return stop.is_set()


@dataclass
class Learner:
    """A running learner in its slot."""

    job_id: int
    token: str
    slot: int
    lease: Lease
    began: float
    ends: float
    step: int = 0
    beaten: float = 0.0
    saved: float = 0.0
    hung: bool = False
    draining: float | None = None


@dataclass
class Behaviour:
    """The behaviour of learners from now on."""

    checkpoint_s: float = 60.0
    crash_after_s: float | None = None
    exit_code: int = 1
    hangs_after_s: float | None = None
    bad_nodes: tuple[str, ...] = ()
    """Nodes on which jobs crash after 20 s."""
    bad_prologs: tuple[str, ...] = ()
    """Nodes that Slurm drains as soon as a job starts there; it cancels that job as user 0."""
    drain_s: float = 2.0


@dataclass(frozen=True)
class Stay:
    """One job's time in a slot, which tests check."""

    slot: int
    token: str
    job_id: int
    begun: float
    ended: float


@dataclass
class Site:
    """The simulated queue, nodes and learners."""

    folder: Path
    true: float = BEGIN
    cap: int | None = 4
    """Limit of one person's running jobs; None: the number of nodes."""
    wait_s: float = 0.0
    grain_s: float = 5.0
    behaviour: Behaviour = field(default_factory=Behaviour)
    learners: dict[int, Learner] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)
    most_running: int = 0
    changed: bool = False
    """True where a lease changed since the controller's last pass."""
    starts: list[tuple[float, int, str]] = field(default_factory=list)
    memory: dict[str, Any] | None = None
    """The shim's state in memory; None where it is in a file for processes."""
    frozen_until: float = 0.0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "state.json").write_text(json.dumps(shim.fresh()))
        (self.folder / "now").write_text(repr(self.true))
        self.run = RunPaths(self.folder / "run")
        self.clock = VirtualClock(self)

    # actions of tests ----------------------------------------------------------------------------

    @contextmanager
    def state(self) -> Iterator[dict[str, Any]]:
        """Yield the shim's state, for reading or changing."""
        if self.memory is not None:
            yield self.memory
            return
        path = self.folder / "state.json"
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(path.read_text())
            yield state
            fresh = path.with_suffix(".own")
            fresh.write_text(json.dumps(state))
            fresh.rename(path)

    def tell_limits(self) -> None:
        """Make the site's limits readable, so that successors wait in a pool."""
        with self.state() as state:
            state["enforced"] = True

    def fault(self, on: str, do: str, **more: object) -> None:
        """Add a fault for the next such command."""
        with self.state() as state:
            state["faults"].append({"on": on, "do": do, **more})

    def freeze(self, seconds: float, do: str = "frozen") -> None:
        """Let Slurm not answer for so long; running jobs go on, none starts."""
        self.fault("*", do, until=self.true + seconds)
        self.frozen_until = self.true + seconds

    def jobs(self, *states: str) -> list[dict[str, Any]]:
        with self.state() as state:
            return [job for job in state["jobs"] if not states or job["state"] in states]

    def job(self, job_id: int) -> dict[str, Any]:
        return next(job for job in self.jobs() if job["id"] == job_id)

    def calls(self, command: str) -> int:
        with self.state() as state:
            return int(state["calls"].get(command, 0))

    def change(self, job_id: int, **facts: object) -> None:
        with self.state() as state:
            for job in state["jobs"]:
                if job["id"] == job_id:
                    job.update(facts)

    def finish(self, job_id: int, state: str, exit_code: int = 0, why: str = "None") -> None:
        """End a job without notice to its learner."""
        learner = self.learners.pop(job_id, None)
        if learner is not None:
            self._stayed(learner)
        self.change(job_id, state=state, end=self.true, exit=exit_code, reason=why)

    def node_dies(self, node: str, *, requeue: bool = False) -> list[int]:
        """End all jobs of a node; requeue them where the site does so."""
        hit = [job["id"] for job in self.jobs("RUNNING") if job["node"] == node]
        for job_id in hit:
            self.finish(job_id, "NODE_FAIL")
            if requeue:
                restarts = self.job(job_id)["restarts"] + 1
                back = {"state": "PENDING", "reason": "BeginTime", "end": None, "start": None}
                self.change(job_id, **back, restarts=restarts, node="", begin=self.true + 120)
        return hit

    # time ---------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        """Advance the time in steps of ``grain_s``."""
        until = self.true + seconds
        while self.true < until - 1e-6:
            self.true = min(until, self.true + self.grain_s)
            if self.memory is None:
                (self.folder / "now").write_text(repr(self.true))
            with self.state() as state:
                jobs = state["jobs"]
                self._deliver(jobs)
                self._live(jobs)
                if self.true >= self.frozen_until:
                    self._start(jobs, state)
                running = sum(1 for job in jobs if job["state"] == "RUNNING")
                self.most_running = max(self.most_running, running)

    def _deliver(self, jobs: Sequence[dict[str, Any]]) -> None:
        for job in jobs:
            for word in job["mail"]:
                learner = self.learners.get(job["id"])
                if learner is None or learner.hung:
                    if word == "TERM":
                        self._end(job, "CANCELLED", learner)
                elif learner.draining is None:
                    learner.draining = self.true
                    job["why"] = f"signal {'SIGTERM' if word == 'TERM' else 'SIGUSR1'}"
            job["mail"] = []

    def _live(self, jobs: Sequence[dict[str, Any]]) -> None:
        for job in jobs:
            learner = self.learners.get(job["id"])
            if job["state"] == "RUNNING" and learner is not None:
                self._train(job, learner)
            elif job["state"] == "RUNNING" and job["name"].startswith("daddy-"):
                self._seek(job)

    def _seek(self, job: dict[str, Any]) -> None:
        """Claim a slot as the launcher does: wait while one may become free, else exit with 11."""
        claimed = self._claim(job)
        if claimed is not None:
            self._settle(job, *claimed)
            return
        stay = {
            learner.slot
            for learner in self.learners.values()
            if not learner.hung and learner.draining is None
        }
        wanted = {slot for slot, _ in self._orders()}
        if wanted <= stay or self.true >= job["start"] + PATIENCE_S:
            self._end(job, "FAILED", None, exit_code=11)

    def _train(self, job: dict[str, Any], learner: Learner) -> None:
        behaviour, age = self.behaviour, self.true - learner.began
        bad = job["node"] in behaviour.bad_nodes
        crash = 20.0 if bad else behaviour.crash_after_s
        if not learner.lease.held():
            self._end(job, "FAILED", learner, exit_code=12)
        elif crash is not None and age >= crash:
            self._end(job, "FAILED", learner, exit_code=1 if bad else behaviour.exit_code)
        elif self.true >= job["start"] + job["limit"] + 30:
            self._end(job, "TIMEOUT", learner)
        elif behaviour.hangs_after_s is not None and age >= behaviour.hangs_after_s:
            learner.hung = True
        if learner.hung or job["id"] not in self.learners:
            return
        if learner.draining is None and self.true >= learner.ends:
            learner.draining, job["why"] = self.true, "wall time"
        if learner.draining is not None and self.true >= learner.draining + behaviour.drain_s:
            self._save(learner)
            learner.lease.release(job["why"])
            word = "CANCELLED" if "SIGTERM" in job["why"] else "FAILED"
            self._end(job, word, learner, exit_code=0 if word == "CANCELLED" else 10)
            return
        self._work(learner)

    def _work(self, learner: Learner) -> None:
        if self.true - learner.beaten >= 30.0:
            learner.beaten = self.true
            learner.step += 100
            learner.lease.beat({"step": learner.step})
        if self.true - learner.saved >= self.behaviour.checkpoint_s:
            self._save(learner)

    def _save(self, learner: Learner) -> None:
        learner.saved = self.true
        folder = self.run.slot(learner.slot).checkpoints
        for old in folder.glob("t*.json"):
            old.unlink()
        write_json(
            folder / f"t{learner.lease.term:06d}-s{learner.step:012d}.json", {"step": learner.step}
        )

    def _start(self, jobs: Sequence[dict[str, Any]], state: dict[str, Any]) -> None:
        busy = sum(1 for job in jobs if job["state"] == "RUNNING")
        live = {job["id"] for job in jobs if job["state"] in ("RUNNING", "PENDING")}
        for job in sorted(jobs, key=lambda job: job["submit"]):
            if job["state"] != "PENDING" or job["visible"] > self.true:
                continue
            job["reason"] = self._why_not(job, busy, live, state)
            if job["reason"] == "None":
                busy += 1
                self._begin(job, jobs, state["drained"])

    def _why_not(  # noqa: PLR0911 - a list of reasons
        self, job: Mapping[str, Any], busy: int, live: set[int], state: Mapping[str, Any]
    ) -> str:
        if job["held"]:
            return {"user": "JobHeldUser", "admin": "JobHeldAdmin"}[job["held"]]
        if job["after"] in live:
            return "Dependency"
        if self.true < job.get("begin", 0):
            return "BeginTime"
        for reservation in state["reservations"]:
            if self.true + job["limit"] > reservation["start"] and self.true < reservation["end"]:
                return "ReqNodeNotAvail, Reserved for maintenance"
        if self.cap is not None and busy >= self.cap:
            return "QOSMaxJobsPerUserLimit"
        if busy >= len(NODES):
            return "Resources"
        if self.true < job["submit"] + self.wait_s:
            return "Priority"
        return job.get("stuck") or "None"

    def _begin(
        self, job: dict[str, Any], jobs: Sequence[Mapping[str, Any]], drained: dict[str, str]
    ) -> None:
        taken = {job["node"] for job in jobs if job["state"] == "RUNNING"} | {*drained}
        excluded = set((job["excluded"] or "").split(","))
        open_nodes = [n for n in NODES if n not in taken and n not in excluded] or ["n9"]
        bad = [node for node in open_nodes if node in self.behaviour.bad_nodes]
        job.update(state="RUNNING", start=self.true, node=(bad or open_nodes)[0], reason="None")
        self.starts.append((self.true, job["id"], job["node"]))
        if job["node"] in self.behaviour.bad_prologs:
            drained[job["node"]] = "Prolog error"
            job["uid"] = 0 if os.getuid() else 4242
            self._end(job, "CANCELLED", None)
        elif job["name"].startswith("daddy-"):
            self._seek(job)

    def _settle(self, job: Mapping[str, Any], slot: int, lease: Lease) -> None:
        margin = min(180.0, 0.2 * job["limit"])
        ends = job["start"] + job["limit"] - margin
        learner = Learner(job["id"], token_of(job), slot, lease, self.true, ends)
        learner.saved = self.true
        self.learners[job["id"]] = learner
        lease.beat({"step": 0})
        self.changed = True

    def _claim(self, job: Mapping[str, Any]) -> tuple[int, Lease] | None:
        """Claim the lowest free slot that the orders allow."""
        holder = {
            "token": token_of(job),
            "host": job["node"],
            "pid": 1,
            "created": 0.0,
            "job_id": str(job["id"]),
            "restarts": job["restarts"],
        }
        for slot, release in self._orders():
            lease = Lease.acquire(self.run.slot(slot).lease, {**holder, "release": release})
            if lease is not None:
                return slot, lease
        return None

    def _orders(self) -> list[tuple[int, str]]:
        try:
            slots = read_json(self.run.orders)["slots"]
        except (FileNotFoundError, KeyError):
            intent = read_intent(self.run)
            count = intent.slots if intent is not None else 4
            return [(slot, "") for slot in range(count)]
        return sorted((int(slot), str(release)) for slot, release in slots.items())

    def _end(
        self, job: dict[str, Any], state: str, learner: Learner | None, exit_code: int = 0
    ) -> None:
        job.update(state=state, end=self.true, exit=exit_code, mail=[])
        self.learners.pop(job["id"], None)
        self.changed = True
        if learner is not None:
            self._stayed(learner)

    def _stayed(self, learner: Learner) -> None:
        self.stays.append(
            Stay(learner.slot, learner.token, learner.job_id, learner.began, self.true)
        )

    # checks -------------------------------------------------------------------------------------

    def all_stays(self) -> list[Stay]:
        """All stays, ended and current."""
        now = [
            Stay(learner.slot, learner.token, learner.job_id, learner.began, self.true)
            for learner in self.learners.values()
        ]
        return [*self.stays, *now]

    def twice(self) -> list[tuple[Stay, Stay]]:
        """List pairs in one slot at the same time, and tokens that trained as two jobs."""
        stays = sorted(self.all_stays(), key=lambda stay: (stay.slot, stay.begun))
        pairs = itertools.pairwise(stays)
        found = [(a, b) for a, b in pairs if a.slot == b.slot and b.begun < a.ended - 1e-6]
        by_token: dict[str, Stay] = {}
        for stay in stays:
            other = by_token.setdefault(stay.token, stay)
            if other.job_id != stay.job_id:
                found.append((other, stay))
        return found

    @property
    def training(self) -> int:
        return len(self.learners)


@dataclass
class Login:
    """The login node: the real controller of one run over the shim."""

    site: Site
    slots: int = 4
    settings: dict[str, Any] = field(default_factory=dict)
    controller: Controller | None = None
    passes: int = 0

    def __post_init__(self) -> None:
        slurm = {"max_running": self.slots, "time_limit": "4:00:00"}
        told: dict[str, Any] = {
            "run_name": "tiny",
            "run_dir": str(self.run.root),
            "training": {"workload": "cartpole", "device": "cpu", "stream": False},
            "slurm": {**slurm, **self.settings.pop("slurm", {})},
            "controller": {"executor": "slurm", **self.settings.pop("controller", {})},
            **self.settings,
        }
        self.config = Config.model_validate(told)
        self.release = Release("r1", self.run.releases / "r1")
        for folder in (self.release.path, self.run.logs, self.run.scripts, self.run.events):
            folder.mkdir(parents=True, exist_ok=True)
        self.release.config.write_bytes(config_to_json(self.config))

    @property
    def run(self) -> RunPaths:
        return self.site.run

    @property
    def ledger(self) -> Ledger:
        return LedgerFile(self.run.ledger, 0).view

    def kinds(self, kind: str) -> list[Any]:
        return [entry for entry in read_entries(self.run.ledger) if entry.kind == kind]

    def said(self) -> str:
        """The summary of the run's events."""
        return "\n".join(
            str(event["data"].get("text", "")) for event in read_events(self.run.events)
        )

    def start(self, mode: Mode = Mode.RUN) -> Controller:
        """Start a controller in a new term; end the previous term."""
        view = read_lease(self.run.controller_lease)
        if view is not None and view.ended is None:
            end_term(self.run.controller_lease, view.term, "its process is gone")
        lease = Lease.acquire(self.run.controller_lease, {"host": "login", "pid": 1})
        assert lease is not None
        if read_intent(self.run) is None:
            self.intend(mode)
        clock = self.site.clock
        self.controller = controller_wiring.build_controller(
            self.config, self.release, lease, clock, children=False
        )
        return self.controller

    def intend(self, mode: Mode) -> None:
        now = self.site.clock.now()
        said = DesiredRun(mode, self.slots, "slurm", self.release.ident, "cartpole", started_ts=now)
        write_intent(self.run, said, now)

    @property
    def mode(self) -> Mode:
        intent = read_intent(self.run)
        assert intent is not None
        return intent.mode

    def status(self) -> dict[str, Any]:
        """Return the status file."""
        return read_json(self.run.status)

    def settle(self) -> None:
        """Start a run and drive it for ten minutes, until slots and successors are filled."""
        self.drive(600.0)
        assert self.site.training == self.slots, self.said()

    def one_pass(self) -> float:
        """Make one pass; return the seconds until the next is due."""
        controller = self.controller or self.start()
        self.passes += 1
        self.site.changed = False
        _, wake_at = controller.make_pass()
        return max(1.0, wake_at - self.site.clock.now())

    def drive(self, seconds: float) -> None:
        """Make passes when they are due, or two seconds after a lease changed."""
        until = self.site.true + seconds
        while self.site.true < until:
            end = min(until, self.site.true + self.one_pass())
            while self.site.true < end and not self.site.changed:
                self.site.tick(min(self.site.grain_s, end - self.site.true))
            if self.site.changed:
                self.site.tick(2.0)


def link_commands(folder: Path) -> Path:
    """Create a folder for PATH with the seven commands."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True, exist_ok=True)
    program = bin_folder / "shim"
    source = Path(shim.__file__).read_text().split("\n", 1)[1]
    program.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{source}")
    program.chmod(0o755)
    for name in shim.COMMANDS:
        (bin_folder / name).symlink_to(program)
    return bin_folder


def answer_in_process(monkeypatch: Any, site: Site) -> None:
    """Answer commands in this process; a command that hangs takes its timeout of virtual time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    site.memory = shim.fresh()

    def run(argv: Sequence[str], timeout_s: float, **more: Any) -> Completed:
        env = more.get("env") or {}
        name = Path(argv[0]).name
        try:
            words, stdin = list(argv[1:]), more.get("stdin") or ""
            rc, out, err = shim.judge(site.memory, name, words, site.true, env, stdin)
        except shim.HangError:
            site.tick(timeout_s)
            raise ProcessTimeoutError(f"{argv[0]} gave no answer", "wait") from None
        return Completed(rc, out, err)

    monkeypatch.setattr(slurm_commands, "run_command", run)
