"""``status``: the run as one record, as a screen or as JSON; the exit code says it too.

No daemon is needed and nothing is changed. A fresh summary of a living controller is taken as it
is; otherwise the queue is looked at. Where nobody can see the queue, the last known state is told
with its age.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.cluster.orchestrator.commands.health import SILENT_S, assess_health, slot_state
from Daddy.cluster.orchestrator.commands.run_selection import (
    Request,
    intended_release,
    try_read_intent,
)
from Daddy.cluster.orchestrator.control_files import read_probe
from Daddy.cluster.orchestrator.control_parameters import derive_policy
from Daddy.cluster.orchestrator.controller_lease import current_holder
from Daddy.cluster.orchestrator.controller_records import (
    SUMMARY_VERSION,
    Intent,
    Ledger,
    QueueReading,
)
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.ledger_replay import measure_training
from Daddy.core.atomic_files import JSON_LIMIT, parse_json, read_json_or_empty
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, FileError
from Daddy.core.friend_accounts import AccountFolder, account_folders
from Daddy.core.humanize import printable_line
from Daddy.core.lease import is_holder_alive, read_lease
from Daddy.core.load_config import shared_paths
from Daddy.core.machine_info import user_name
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.core.stop_reasons import drain_margin

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.scheduler_interface import Scheduler

MOST_JOBS = 32
"""Lines for other accounts' jobs that a screen has room for, those first that beat last."""
_WATCH_S = 2.0
_WIDE = 160
"""Columns where there is no terminal: nothing is broken for grep."""
_FRESH_S = 90.0
"""Age up to which a living controller's summary is as good as a look at the queue."""
_LATE_S = 60.0
"""The same, after the time for which the controller announced its next look."""
_PATIENCE_S = 0.8
"""For a silent scheduler: a person waits at most two seconds in all."""
_ASK_AGAIN_S = 30.0
"""Between two looks at the queue while watching."""
_HOUR_S = 3600.0
_MOST_VERSION = 10**9
"""More than a run can have; a greater number in somebody's heartbeat is cut to it."""
_NEEDED = {"ts", "mode", "queue", "slots", "waiting", "reasons", "last", "daemon", "used_s"}

Summarise = Callable[[Intent | None, Ledger], dict[str, Any]]
"""The summary that a controller would write now (:func:`..plan.summary_of`)."""


def run_status(request: Request, *, as_json: bool, watch: bool) -> int:
    """Print the screen or the record; once its exit code, or until Ctrl-C."""
    (config, run), clock = request.find_run(), SystemClock()
    looks = _Reader(config, run, clock).looks()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not watch:
        told = next(looks)
        _print(config.run_name, told, clock.now(), as_json=as_json)
        return int(told["exit_code"])
    with contextlib.suppress(KeyboardInterrupt):
        if sys.stdout.isatty() and not as_json:
            _stay(config.run_name, looks, clock)
        for told in looks:
            _print(config.run_name, told, clock.now(), as_json=as_json)
    return ExitCode.DONE


@dataclass
class _Reader:
    """Reads the record, again and again; the queue is looked at only where it has to be."""

    config: Config
    run: RunPaths
    clock: Clock
    queue: Scheduler | None = None
    seen: tuple[float, QueueReading] | None = None

    def looks(self) -> Iterator[dict[str, Any]]:
        """The record every few seconds; a living controller's summary spares the queue a look."""
        fallback, never = self.config, threading.Event()
        while True:
            self.config = intended_release(self.run, try_read_intent(self.run)[0], fallback)[1]
            yield read_status(self.run, self.config, self._summarise, self.clock)
            self.clock.wait(never, _WATCH_S)

    def _summarise(self, intent: Intent | None, ledger: Ledger) -> dict[str, Any]:
        """By the queue as it is, or as it was less than half a minute ago."""
        from Daddy.cluster.orchestrator.commands.plan import make_summary
        from Daddy.cluster.orchestrator.executors import make_scheduler

        config, run, clock, now = self.config, self.run, self.clock, self.clock.monotonic()
        executor = intent.executor if intent is not None else "local"
        if self.queue is None:
            self.queue = make_scheduler(executor, config, run, clock, _PATIENCE_S)
        if self.seen is None or now - self.seen[0] >= _ASK_AGAIN_S:
            self.seen = (now, self.queue.snapshot())
        return make_summary(
            run, self.seen[1], derive_policy(config, executor), clock, intent, ledger
        )


def _print(run_name: str, told: dict[str, Any], now: float, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told), flush=True)
        return
    from rich.console import Console

    from Daddy.cluster.orchestrator.commands.status_screen import render_screen

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    with console.capture() as text:
        console.print(render_screen(run_name, told, now, console.width))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def _stay(run_name: str, looks: Iterator[dict[str, Any]], clock: Clock) -> None:
    """A screen that is drawn anew in its place."""
    from rich.console import Console
    from rich.live import Live

    from Daddy.cluster.orchestrator.commands.status_screen import render_screen

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for told in looks:
            live.update(render_screen(run_name, told, clock.now(), console.width), refresh=True)


def read_status(
    run: RunPaths, config: Config, summarise: Summarise, clock: Clock
) -> dict[str, Any]:
    """Everything ``status`` shows; ``summarise`` is called where no summary is fresh.

    Format: ``docs/formats.md``. Stamps are wall seconds, ages seconds.
    """
    intent, damage = try_read_intent(run)
    known, controller, now = read_last_summary(run), _controller(run), clock.now()
    fresh = _is_fresh(known, now) and controller["alive"] is not False
    told = known if fresh else summarise(intent, read_ledger(run.ledger))
    if not told["queue"]["known"] and known.get("slots"):
        told = {**known, **{name: told[name] for name in ("queue", "mode", "why")}}
    if "trained_s" not in told:  # written by the release before
        told = {**told, **measure_training(read_ledger(run.ledger), now)}
    told = {
        **told,
        "damage": damage,
        "controller": controller,
        "age_s": round(now - told["ts"], 1),
        "passed_s": round(now - known["ts"], 1) if known else None,
        "slots": [_measured(run, config, slot, now) for slot in told["slots"]],
    }
    told |= _fleet(run, config, told, now)
    verdict = assess_health(told)
    said = {"verdict": verdict.word, "exit_code": int(verdict.code), "said": verdict.sentence}
    return {**told, **said}


def read_last_summary(run: RunPaths) -> dict[str, Any]:
    """The summary of the last pass; empty where there is none that this code can read."""
    found = read_json_or_empty(run.status)
    whole = found.get("v") == SUMMARY_VERSION and found.keys() >= _NEEDED
    return found if whole else {}


def _is_fresh(known: Mapping[str, Any], now: float) -> bool:
    if not known:
        return False
    until = max(known["ts"] + _FRESH_S, (known.get("wake_ts") or 0.0) + _LATE_S)
    return bool(now <= until)


def _controller(run: RunPaths) -> dict[str, Any]:
    """The holder of the controller's lease; ``alive`` is None for one on another host."""
    view = current_holder(run)
    if view is None:
        return {"alive": False}
    return {"alive": is_holder_alive(view.holder), "term": view.term, **view.holder}


def _measured(run: RunPaths, config: Config, slot: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A slot with its beat, the ages of its files, and the time at which it will leave."""
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
        "leaves_ts": _leaves(config, slot, beat, now - (beat_s or 0.0)) if beating else None,
    }
    return {**measured, "state": slot_state(measured)}


def _leaves(
    config: Config, slot: Mapping[str, Any], beat: Mapping[str, Any], beat_ts: float
) -> float | None:
    """When the job means to leave: by its own word, else by the rules it goes by."""
    said = beat.get("leaves_in_s")
    if isinstance(said, int | float):
        return beat_ts + float(said)
    started, ends = slot["started_ts"], slot["ends_ts"]
    by_runtime = inf if started is None else started + config.training.max_runtime_seconds
    limit = 0.0 if started is None or ends is None else ends - started
    by_limit = inf if ends is None else ends - drain_margin(limit)
    leaves = min(by_runtime, by_limit)
    return leaves if leaves < inf else None


def _fleet(run: RunPaths, config: Config, told: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Figures of all slots together: hours, steps, versions, calls, and the next hand-over."""
    shared, slots = shared_paths(config), told["slots"]
    head = read_json_or_empty(shared.head)
    done, total = int(head.get("fleet_steps", 0)), config.training.total_steps
    rates = (slot["beat"].get("steps_per_second") for slot in slots if slot["training"])
    rate = sum(float(speed) for speed in rates if isinstance(speed, int | float))
    leaving = [slot for slot in slots if slot["leaves_ts"] is not None]
    first = min(leaving, key=lambda slot: slot["leaves_ts"], default=None)
    return {
        "hours": _hours(config, told),
        "steps": {"done": done, "total": total, "per_second": round(rate, 1)},
        "versions_per_hour": _versions_per_hour(shared, head.get("version"), now),
        "others": read_friends_jobs(shared, head, now),
        "failover": _failover(run, config),
        "mirror": read_json_or_empty(run.mirrored) or None,
        "watch": _watch_line(run) if told["controller"]["alive"] is not False else None,
        "calls_today": _calls_today(run, now),
        "next_handover": first and {"slot": first["slot"], "ts": round(first["leaves_ts"], 3)},
        "done_ts": round(now + max(0, total - done) / rate, 3) if total > 0 and rate > 0 else None,
    }


def _hours(config: Config, told: Mapping[str, Any]) -> dict[str, Any]:
    """Hours in which slots trained, of those there were; a job without a GPU counts as one."""
    gpus = config.slurm.gpus_per_job
    each = max(1, gpus) / _HOUR_S
    return {
        "unit": "GPU-hours" if gpus else "slot-hours",
        "used": round(each * told["trained_s"], 3),
        "available": round(each * len(told["slots"]) * told["window_s"], 3),
        "window_s": told["window_s"],
        "budget": config.controller.budget_gpu_hours or None,
        "spent": round(each * told["used_s"], 3),
    }


def _versions_per_hour(shared: SharedPaths, newest: object, now: float) -> int | None:
    """Versions committed in the last hour; None before the first.

    Records are never deleted and their stamps grow, so a few of them tell.
    """
    if not isinstance(newest, int) or not 1 <= newest < _MOST_VERSION:
        return None

    def is_new(number: int) -> bool:
        seconds = _age(shared.version(number), now)
        return seconds is not None and seconds <= _HOUR_S

    return newest - bisect_left(range(1, newest + 1), x=True, key=is_new)


def _age(path: Path, now: float) -> float | None:
    """Seconds since the file was written, by the file server's clock; None where there is none."""
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return None


def _calls_today(run: RunPaths, now: float) -> int | None:
    """Scheduler commands run for this run today (UTC), by anybody: one line each.

    None where nobody counts (the local queue).
    """
    if not run.calls.is_dir():
        return None
    day = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%d")
    count = 0
    for path in run.calls.glob(f"*-{day}.log"):
        with contextlib.suppress(OSError):  # another's file, on a file system that may be sick
            count += path.read_bytes().count(b"\n")
    return count


def _failover(run: RunPaths, config: Config) -> dict[str, Any] | None:
    """Failover by the jobs; None: nobody has tried yet."""
    if not config.controller.failover:
        return {"on": False, "how": "by controller.failover"}
    known = read_probe(run)
    return None if known is None else {"on": known.may_submit, "how": known.why}


def _watch_line(run: RunPaths) -> str | None:
    """The line to type at home to watch, with the host where the relay is; None: nowhere."""
    there = read_json_or_empty(run.relay)
    host, port = printable_line(str(there.get("host"))), there.get("port")
    if not isinstance(port, int):
        return None
    return f"ssh -N -R {port}:localhost:{port} {user_name()}@{host}"


def read_friends_jobs(shared: SharedPaths, head: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Jobs of other accounts in this run: ``jobs`` by name and ``troubles`` in words.

    Their queue is not ours to ask: a job lives while its heartbeat's file is young by this
    machine's clock. Steps and lag are by ``head``, the hint at the newest version.
    """
    try:
        boxes = account_folders(shared)
    except FileError as error:
        return {"jobs": [], "troubles": [str(error)]}
    found = [job for box in boxes for job in _jobs(box, head, now)]
    newest: dict[str, dict[str, Any]] = {}
    for job in sorted(found, key=lambda job: job["beat_s"]):
        newest.setdefault(job["peer"], job)  # of a job's processes the one that beat last
    jobs = [*newest.values()][:MOST_JOBS]
    return {
        "jobs": sorted(jobs, key=lambda job: (job["account"], len(job["peer"]), job["peer"])),
        "troubles": [f"{box.owner_name}: {why}" for box in boxes if (why := box.problem())],
    }


def _jobs(box: AccountFolder, head: Mapping[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """Every readable heartbeat of an account; one that is none is passed over."""
    steps, newest = head.get("contributors"), head.get("version")
    for folder in box.process_folders():
        path, peer = folder / "hb.json", folder.parent.name
        with contextlib.suppress(OSError, FileError, LookupError, TypeError, ValueError,
                                 OverflowError):  # fmt: skip
            body = parse_json(box.read_file(path, JSON_LIMIT), str(path))
            beat_s = max(0.0, now - os.lstat(path).st_mtime)
            version = min(int(body["version"]), _MOST_VERSION)
            yield {
                "peer": peer,
                "account": box.owner_name,
                "version": version,
                "left": bool(body["left"]),
                "beat_s": round(beat_s, 1),
                "state": "left" if body["left"] else "silent" if beat_s > SILENT_S else "trains",
                "behind": max(0, newest - version) if isinstance(newest, int) else 0,
                "steps": int(steps.get(peer, 0)) if isinstance(steps, dict) else 0,
            }
