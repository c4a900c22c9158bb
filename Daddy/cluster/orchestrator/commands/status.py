"""Implements ``status``: reads the run's record and shows it as screen or JSON, with an exit code.

No daemon is needed and nothing is changed; a test write shows if the disk is full. The recent
summary of a live controller is shown as it is; otherwise the queue is listed. If that fails, the
last known state is shown with its age.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.cluster.orchestrator.commands.health_verdict import (
    SILENT_S,
    assess_health,
    describe_late_version,
    slot_state,
)
from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release, load_intent
from Daddy.cluster.orchestrator.control_files import read_probe
from Daddy.cluster.orchestrator.control_parameters import derive_policy
from Daddy.cluster.orchestrator.controller_lease import current_holder
from Daddy.cluster.orchestrator.controller_types import (
    SUMMARY_VERSION,
    DesiredRun,
    Ledger,
    QueueReading,
)
from Daddy.cluster.orchestrator.decisions.controller_failover import blind_seconds
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.ledger_replay import measure_training
from Daddy.core.atomic_files import JSON_LIMIT, find_full_disk, parse_json, read_json_or_empty
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, FileError, SchedulerError
from Daddy.core.friend_accounts import AccountFolder, account_folders
from Daddy.core.host_and_processes import user_name
from Daddy.core.humanize import printable_line
from Daddy.core.lease import is_holder_alive, read_lease
from Daddy.core.load_config import shared_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.saved_cluster import setup_line
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths, owners_root
from Daddy.core.stop_conditions import drain_margin
from Daddy.core.terminal import print_screen, show_screens

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.scheduler_interface import Scheduler

MOST_JOBS = 32
"""Most jobs of other accounts shown, those with the newest heartbeat first."""
_WATCH_S = 2.0
_FRESH_S = 90.0
"""Age in seconds up to which a live controller's summary replaces a listing of the queue."""
_LATE_S = 60.0
"""Seconds after the announced next pass up to which the summary is used as well."""
_PATIENCE_S = 0.8
"""Timeout of a scheduler command: the person waits at most two seconds in all."""
_ASK_AGAIN_S = 30.0
"""Least seconds between two listings of the queue with ``--watch``."""
_HOUR_S = 3600.0
_RHYTHM = 8
"""Newest intervals between versions, whose median is the run's rhythm."""
_MOST_VERSION = 10**9
"""More versions than a run can have; a greater number in a heartbeat is cut to it."""
_NEEDED = {"ts", "mode", "queue", "slots", "waiting", "reasons", "last", "daemon", "used_s"}

Summarise = Callable[[DesiredRun | None, Ledger], dict[str, Any]]
"""Returns the summary that a controller would write now (``plan.make_summary``)."""


def run_status(request: Request, *, as_json: bool, watch: bool) -> int:
    """Print the status, return the health's exit code; ``watch``: repeat until Ctrl-C."""
    (config, run), clock = request.find_run(), SystemClock()
    records = StatusReader(config, run, clock).read_records()
    if not watch:
        record = next(records)
        _print(config.run_name, record, clock.now(), as_json=as_json)
        return int(record["exit_code"])
    with contextlib.suppress(KeyboardInterrupt):
        if not as_json:
            _redraw(config.run_name, records, clock)
        for record in records:
            _print(config.run_name, record, clock.now(), as_json=as_json)
    return ExitCode.DONE


@dataclass
class StatusReader:
    """Reads the status record repeatedly; lists the queue only if no summary is recent."""

    config: Config
    run: RunPaths
    clock: Clock
    queue: Scheduler | None = None
    listing: tuple[float, QueueReading] | None = None

    def read_records(self) -> Iterator[dict[str, Any]]:
        """Yield the run's status record every two seconds, without end."""
        fallback, never = self.config, threading.Event()
        while True:
            self.config = find_release(self.run, load_intent(self.run)[0], fallback)[1]
            yield read_status(self.run, self.config, self._summarise, self.clock)
            self.clock.wait(never, _WATCH_S)

    def _summarise(self, intent: DesiredRun | None, ledger: Ledger) -> dict[str, Any]:
        """Return the summary of a queue listing that is at most ``_ASK_AGAIN_S`` seconds old."""
        from Daddy.cluster.orchestrator.commands.plan import make_summary
        from Daddy.cluster.orchestrator.scheduler_factory import choose_executor, make_scheduler

        config, run, clock, now = self.config, self.run, self.clock, self.clock.monotonic()
        executor = "local" if intent is None else intent.executor
        if intent is None:  # its folder may have been moved while its jobs go on
            with contextlib.suppress(SchedulerError):
                executor = choose_executor(config, os.environ)
        if self.queue is None:
            self.queue = make_scheduler(executor, config, run, clock, _PATIENCE_S)
        if self.listing is None or now - self.listing[0] >= _ASK_AGAIN_S:
            self.listing = (now, self.queue.snapshot())
        policy = derive_policy(config, executor)
        return make_summary(run, self.listing[1], policy, clock, intent, ledger)


def _print(run_name: str, record: dict[str, Any], now: float, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(record), flush=True)
        return
    from Daddy.cluster.orchestrator.commands.status_screen import render_screen

    print_screen(partial(render_screen, run_name, record, now))


def _redraw(run_name: str, records: Iterator[dict[str, Any]], clock: Clock) -> None:
    from Daddy.cluster.orchestrator.commands.status_screen import render_screen

    show_screens(partial(render_screen, run_name, record, clock.now()) for record in records)


def read_status(
    run: RunPaths, config: Config, summarise: Summarise, clock: Clock
) -> dict[str, Any]:
    """Return the record that ``status`` shows (``docs/formats.md``); times in wall seconds."""
    intent, damage = load_intent(run)
    last, controller, now = read_last_summary(run), _controller(run), clock.now()
    recent = _is_recent(last, now) and controller["alive"] is not False
    recent = recent and not controller["blind_s"]
    current = recent and _follows(last, intent) and not _find_silent(run, last, now)
    record = last if current else summarise(intent, read_ledger(run.ledger))
    if not record["queue"]["known"] and last.get("slots"):
        record = {**last, **{name: record[name] for name in ("queue", "mode", "why")}}
        record["queue"] = last["queue"] if recent else record["queue"]
    if "trained_s" not in record:  # written by the release before
        measured = measure_training(read_ledger(run.ledger), len(record["slots"]), now)
        record = {**record, **measured}
    record = {
        **record,
        "damage": damage,
        "controller": controller,
        "age_s": round(now - record["ts"], 1),
        "passed_s": round(now - last["ts"], 1) if last else None,
        "intent_ts": read_json_or_empty(run.intent).get("ts"),
        "started_s": round(now - intent.started_ts, 1) if intent is not None else None,
        "slots": [_add_measurements(run, config, slot, now) for slot in record["slots"]],
    }
    record["full"] = _describe_full_disk(run, record["slots"])
    record |= _fleet(run, config, record, now)
    health = assess_health(record)
    assessment = {"verdict": health.word, "exit_code": int(health.code), "said": health.sentence}
    return {**record, **assessment}


def read_last_summary(run: RunPaths) -> dict[str, Any]:
    """Return ``status.json`` of the last pass; {} if it is missing or of another version."""
    summary = read_json_or_empty(run.status)
    readable = summary.get("v") == SUMMARY_VERSION and summary.keys() >= _NEEDED
    return summary if readable else {}


def _is_recent(summary: Mapping[str, Any], now: float) -> bool:
    if not summary:
        return False
    until = max(summary["ts"] + _FRESH_S, (summary.get("wake_ts") or 0.0) + _LATE_S)
    return bool(now <= until)


def _follows(summary: Mapping[str, Any], intent: DesiredRun | None) -> bool:
    """Return True if the summary is of the present intent: a command may have changed it since."""
    if intent is None:
        return True
    slots = sum(not slot.get("surplus") for slot in summary["slots"])
    before = (summary["mode"], summary.get("release"), slots)
    return before == (intent.mode.value, intent.release, intent.slots)


def _find_silent(run: RunPaths, summary: Mapping[str, Any], now: float) -> bool:
    """Return True if a slot's heartbeat has stopped: the job may be suspended since that pass."""
    training = (slot for slot in summary["slots"] if slot["training"] and slot["word"] == "RUNNING")
    beats = (run.slot(int(slot["slot"])).lease / "beat.json" for slot in training)
    return any((_age(path, now) or 0.0) > SILENT_S for path in beats)


def _controller(run: RunPaths) -> dict[str, Any]:
    """Return the controller lease's holder and ``alive``: None if it is on another host."""
    view = current_holder(run)
    if view is None:
        return {"alive": False, "blind_s": 0.0}
    alive, blind_s = is_holder_alive(view.holder), blind_seconds(view.beat)
    return {"alive": alive, "term": view.term, **view.holder, "blind_s": blind_s}


def _add_measurements(
    run: RunPaths, config: Config, slot: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """Return the slot's record with heartbeat, ages of files, its job's exit time and state."""
    paths = run.slot(int(slot["slot"]))
    view = read_lease(paths.lease)
    beat = {} if view is None else dict(view.beat)
    beating = slot["training"] and bool(beat)
    beat_s = _age(paths.lease / "beat.json", now) if beating else None
    name = f"t{int(slot['checkpoint_term']):06d}-s{int(slot['checkpoint_step']):012d}.json"
    measured = {
        **slot,
        "beat": beat,
        "beat_s": beat_s,
        "checkpoint_s": _age(paths.checkpoints / name, now),
        "boot_s": beat.get("boot_s"),
        "leaves_ts": _leaving_ts(config, slot, beat, now - (beat_s or 0.0)) if beating else None,
    }
    return {**measured, "state": slot_state(measured)}


def _describe_full_disk(run: RunPaths, slots: Sequence[Mapping[str, Any]]) -> str:
    """Return the error of a test write, or a learner's of its checkpoint; "" without one."""
    full = find_full_disk(run.controller) if run.controller.is_dir() else ""
    beats = (str(slot["beat"].get("trouble") or "") for slot in slots if slot["training"])
    return full or printable_line(next(filter(None, beats), ""))


def _leaving_ts(
    config: Config, slot: Mapping[str, Any], beat: Mapping[str, Any], beat_ts: float
) -> float | None:
    """Return the wall time of the job's exit by its heartbeat or, without one, its limits."""
    leaves_in_s = beat.get("leaves_in_s")
    if isinstance(leaves_in_s, int | float):
        return beat_ts + float(leaves_in_s)
    started, ends = slot["started_ts"], slot["ends_ts"]
    by_runtime = inf if started is None else started + config.training.max_runtime_seconds
    limit = 0.0 if started is None or ends is None else ends - started
    by_limit = inf if ends is None else ends - drain_margin(limit)
    leaves = min(by_runtime, by_limit)
    return leaves if leaves < inf else None


def _fleet(run: RunPaths, config: Config, record: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return totals of the run: hours, steps, versions, friends, calls, next hand-over, end."""
    shared, slots = shared_paths(config), record["slots"]
    head = read_json_or_empty(shared.head)
    steps_done, total = int(head.get("fleet_steps", 0)), config.training.total_steps
    rates = (slot["beat"].get("steps_per_second") for slot in slots if slot["training"])
    rate = sum(float(speed) for speed in rates if isinstance(speed, int | float))
    leaving = [slot for slot in slots if slot["leaves_ts"] is not None]
    first = min(leaving, key=lambda slot: slot["leaves_ts"], default=None)
    return {
        "hours": _hours(config, record),
        "steps": {"done": steps_done, "total": total, "per_second": round(rate, 1)},
        "versions_per_hour": _versions_per_hour(shared, head.get("version"), now),
        "late": _late(shared, head.get("version"), slots, now)
        if config.collaboration.enabled
        else "",
        "others": read_friends_jobs(shared, head, now),
        "failover": _failover(run, config),
        "mirror": read_json_or_empty(run.mirrored) or None,
        "watch": _watch_line(run) if record["controller"]["alive"] is not False else None,
        "join": _join_line(run, shared) if config.collaboration.enabled else None,
        "calls_today": _calls_today(run, now),
        "next_handover": first and {"slot": first["slot"], "ts": round(first["leaves_ts"], 3)},
        "done_ts": round(now + max(0, total - steps_done) / rate, 3)
        if total > 0 and rate > 0
        else None,
    }


def _hours(config: Config, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return GPU-hours trained, available and budgeted; hours of slots if jobs have no GPU."""
    gpus = config.slurm.gpus_per_job
    each = max(1, gpus) / _HOUR_S
    return {
        "unit": "GPU-hours" if gpus else "slot-hours",
        "used": round(each * record["trained_s"], 3),
        "available": round(each * len(record["slots"]) * record["window_s"], 3),
        "window_s": record["window_s"],
        "budget": config.controller.budget_gpu_hours or None,
        "spent": round(each * record["used_s"], 3),
    }


def _versions_per_hour(shared: SharedPaths, newest: object, now: float) -> int | None:
    """Return the number of versions committed in the last hour, by bisection; None without any."""
    if not isinstance(newest, int) or not 1 <= newest < _MOST_VERSION:
        return None

    def is_new(number: int) -> bool:
        seconds = _age(shared.version(number), now)
        return seconds is not None and seconds <= _HOUR_S

    return newest - bisect_left(range(1, newest + 1), x=True, key=is_new)


def _late(
    shared: SharedPaths, newest: object, slots: Sequence[Mapping[str, Any]], now: float
) -> str:
    """Return the clause on a late version (`describe_late_version`), "" if none is late."""
    if not isinstance(newest, int) or not 0 <= newest < _MOST_VERSION:
        return ""
    numbers = range(newest, max(-1, newest - _RHYTHM - 1), -1)
    ages = [age for number in numbers if (age := _age(shared.version(number), now)) is not None]
    started = [slot["started_ts"] for slot in slots if slot["state"] == "trains"]
    return describe_late_version(ages, now - min(filter(None, started), default=now))


def _age(path: Path, now: float) -> float | None:
    """Return seconds since the file's last change (server's time); None if it is missing."""
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return None


def _calls_today(run: RunPaths, now: float) -> int | None:
    """Return the number of scheduler commands for this run today (UTC); None on the local queue."""
    if not run.calls.is_dir():
        return None
    day = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%d")
    count = 0
    for path in run.calls.glob(f"*-{day}.log"):
        with contextlib.suppress(OSError):  # another host's file may be unreadable
            count += path.read_bytes().count(b"\n")
    return count


def _failover(run: RunPaths, config: Config) -> dict[str, Any] | None:
    """Return if jobs may make the controller's passes, and why; None until a job tested it."""
    if not config.controller.failover:
        return {"on": False, "how": "by controller.failover"}
    probe = read_probe(run)
    return None if probe is None else {"on": probe.may_submit, "how": probe.why, "ts": probe.ts}


def _watch_line(run: RunPaths) -> str | None:
    """Return the ssh command for a viewer at home; None if ``relay.json`` names no port."""
    relay = read_json_or_empty(run.relay)
    host, port = printable_line(str(relay.get("host"))), relay.get("port")
    if not isinstance(port, int):
        return None
    return f"ssh -N -R {port}:localhost:{port} {user_name()}@{host}"


def _join_line(run: RunPaths, shared: SharedPaths) -> str | None:
    """Return the line with which a laptop joins the run; None if ``relay.json`` has no host."""
    host = printable_line(str(read_json_or_empty(run.relay).get("host", "")))
    return setup_line(user_name(), host, owners_root(shared)) if host else None


def read_friends_jobs(shared: SharedPaths, head: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return other accounts' jobs in this run: ``jobs`` by name, and ``troubles`` in words.

    Another account's queue cannot be listed: a job counts as live while its heartbeat file is
    recent by this machine's clock. Steps and lag refer to ``head``, the newest version's record.
    """
    try:
        accounts = account_folders(shared)
    except FileError as error:
        return {"jobs": [], "troubles": [str(error)]}
    jobs_found = [job for account in accounts for job in _jobs(account, head, now)]
    newest: dict[str, dict[str, Any]] = {}
    for job in sorted(jobs_found, key=lambda job: job["beat_s"]):
        newest.setdefault(job["peer"], job)  # the process with the newest heartbeat
    jobs = [*newest.values()][:MOST_JOBS]
    return {
        "jobs": sorted(jobs, key=lambda job: (job["account"], len(job["peer"]), job["peer"])),
        "troubles": [f"{box.owner_name}: {why}" for box in accounts if (why := box.problem())],
    }


def _jobs(account: AccountFolder, head: Mapping[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """Yield a record of every readable heartbeat of an account; skip damaged ones."""
    steps, newest = head.get("contributors"), head.get("version")
    for folder in account.process_folders():
        path, peer = folder / "hb.json", folder.parent.name
        with contextlib.suppress(OSError, FileError, LookupError, TypeError, ValueError,
                                 OverflowError):  # fmt: skip
            body = parse_json(account.read_file(path, JSON_LIMIT), str(path))
            beat_s = max(0.0, now - os.lstat(path).st_mtime)
            version = min(int(body["version"]), _MOST_VERSION)
            yield {
                "peer": peer,
                "account": account.owner_name,
                "version": version,
                "left": bool(body["left"]),
                "beat_s": round(beat_s, 1),
                "state": "left" if body["left"] else "silent" if beat_s > SILENT_S else "trains",
                "behind": max(0, newest - version) if isinstance(newest, int) else 0,
                "steps": int(steps.get(peer, 0)) if isinstance(steps, dict) else 0,
            }
