"""How a run stands, as one record for a person and for scripts: needs no daemon, changes nothing.

A fresh summary of a living controller is taken as it is; otherwise somebody looks at the queue.
Where nobody can see it, the last known state is told with its age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from Daddy.cluster.orchestrator.commands import figures
from Daddy.cluster.orchestrator.commands.others import others
from Daddy.cluster.orchestrator.commands.request import known_intent
from Daddy.cluster.orchestrator.commands.verdict import judge
from Daddy.cluster.orchestrator.failover import read_probe
from Daddy.cluster.orchestrator.intent import Intent
from Daddy.cluster.orchestrator.ledger import recall
from Daddy.cluster.orchestrator.records import SUMMARY_VERSION, Ledger
from Daddy.cluster.orchestrator.tenure import holder
from Daddy.core.clock import Clock
from Daddy.core.config import shared_paths
from Daddy.core.errors import FileError
from Daddy.core.files import read_json
from Daddy.core.humanize import one_line
from Daddy.core.lease import holder_alive, read_lease
from Daddy.core.machine import user_name
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stopping import drain_margin

FRESH_S = 90.0
"""Age up to which a living controller's summary is as good as a look of our own; later if it said
that it would look later."""
_LATE_S = 60.0

_NEEDED = {"ts", "mode", "queue", "slots", "waiting", "reasons", "last", "daemon", "used_s"}

Look = Callable[[Intent | None, Ledger], dict[str, Any]]
"""What a controller would write now, by a look of our own (`look.look`)."""


def read_status(run: RunPaths, config: Config, look: Look, clock: Clock) -> dict[str, Any]:
    """Everything ``status`` shows, as one record; ``look`` is called where nothing is fresh."""
    intent, damage = known_intent(run)
    known, controller, now = last_summary(run), _controller(run), clock.now()
    fresh = _is_fresh(known, now) and controller["alive"] is not False
    ledger = recall(run.ledger)
    status = known if fresh else look(intent, ledger)
    if not status["queue"]["known"] and known.get("slots"):
        status = {**known, "queue": status["queue"]}
    status = {
        **status,
        "damage": damage,
        "controller": controller,
        "age_s": round(now - status["ts"], 1),
        "passed_s": round(now - known["ts"], 1) if known else None,
    }
    status["slots"] = [_measured(run, config, slot, now) for slot in status["slots"]]
    status |= _fleet(run, config, ledger, status, now)
    verdict = judge(status)
    return {
        **status,
        "verdict": verdict.word,
        "exit_code": int(verdict.code),
        "said": verdict.sentence,
    }


def last_summary(run: RunPaths) -> dict[str, Any]:
    """What the last pass wrote; empty where there is none that this code can read."""
    try:
        found = read_json(run.status)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return {}
    whole = found.get("v") == SUMMARY_VERSION and found.keys() >= _NEEDED
    return found if whole else {}


def _is_fresh(known: Mapping[str, Any], now: float) -> bool:
    if not known:
        return False
    until = max(known["ts"] + FRESH_S, (known.get("wake_ts") or 0.0) + _LATE_S)
    return bool(now <= until)


def _controller(run: RunPaths) -> dict[str, Any]:
    """Who holds the run; ``alive`` is None for one on another host."""
    view = holder(run)
    if view is None:
        return {"alive": False}
    alive = holder_alive(view.holder)
    return {"alive": alive, "term": view.term, **view.holder}


def _measured(run: RunPaths, config: Config, slot: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A slot with what its files say: its beat, ages, and when it will leave."""
    paths = run.slot(int(slot["slot"]))
    view = read_lease(paths.lease)
    beat = {} if view is None else dict(view.beat)
    beating = slot["training"] and bool(beat)
    beat_s = figures.age_of(paths.lease / "beat.json", now) if beating else None
    name = f"t{int(slot['checkpoint_term']):06d}-s{int(slot['checkpoint_step']):012d}.json"
    return {
        **slot,
        "beat": beat,
        "beat_s": beat_s,
        "checkpoint_s": figures.age_of(paths.checkpoints / name, now),
        "boot_s": beat.get("boot_s"),
        "leaves_ts": _leaves(config, slot, beat, now - (beat_s or 0.0)) if beating else None,
    }


def _leaves(
    config: Config, slot: Mapping[str, Any], beat: Mapping[str, Any], beat_ts: float
) -> float | None:
    """When the job means to leave: by its own word, else by the rules it goes by."""
    said = beat.get("leaves_in_s")
    if isinstance(said, int | float):
        return beat_ts + float(said)
    started, ends = slot["started_ts"], slot["ends_ts"]
    stamps = []
    if started is not None:
        stamps.append(started + config.training.max_runtime_seconds)
    if ends is not None:
        limit = ends - started if started is not None else 0.0
        stamps.append(ends - drain_margin(limit))
    return min(stamps, default=None)


def _fleet(
    run: RunPaths, config: Config, ledger: Ledger, status: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """The whole of it: hours, versions, calls, and what comes next."""
    shared, slots = shared_paths(config), status["slots"]
    share = figures.share_used(ledger, len(slots), config.slurm.gpus_per_job, now)
    done, total = int(figures.head(shared).get("fleet_steps", 0)), config.training.total_steps
    rates = [_rate(slot) for slot in slots if slot["training"]]
    left = figures.seconds_left(done, total, rates)
    leave = figures.next_leave([slot["leaves_ts"] for slot in slots])
    day = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%d")
    return {
        "hours": {
            "unit": "GPU-hours" if config.slurm.gpus_per_job else "slot-hours",
            "used": round(share.used_h, 3),
            "available": round(share.available_h, 3),
            "window_s": round(share.window_s, 1),
            "budget": config.controller.budget_gpu_hours or None,
            "spent": round(status["used_s"] * max(1, config.slurm.gpus_per_job) / 3600.0, 3),
        },
        "steps": {"done": done, "total": total, "per_second": round(sum(rates), 1)},
        "versions_per_hour": figures.versions_per_hour(shared, now),
        "others": others(shared, figures.head(shared), now),
        "failover": _failover(run, config),
        "mirror": _mirror(run),
        "watch": _watch(run) if status["controller"]["alive"] is not False else None,
        "calls_today": figures.calls_today(run, day),
        "next_handover": None if leave is None else {"slot": leave[0], "ts": round(leave[1], 3)},
        "done_ts": None if left is None else round(now + left, 3),
    }


def _failover(run: RunPaths, config: Config) -> dict[str, Any] | None:
    """Whether jobs make the passes while no controller lives; None: nobody has tried yet."""
    if not config.controller.failover:
        return {"on": False, "how": "by controller.failover"}
    known = read_probe(run)
    return None if known is None else {"on": known.may_submit, "how": known.why}


def _mirror(run: RunPaths) -> dict[str, Any] | None:
    """How the copy in the home directory stands, as its keeper noted it; None: nobody did."""
    try:
        return read_json(run.mirrored)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return None


def _watch(run: RunPaths) -> str | None:
    """What to type at home to watch, with the host where the relay really is; None: nowhere."""
    try:
        there = read_json(run.relay)
        host, port = one_line(str(there["host"])), int(there["port"])
    except (OSError, FileError, KeyError, TypeError, ValueError):
        return None
    return f"ssh -N -R {port}:localhost:{port} {user_name()}@{host}"


def _rate(slot: Mapping[str, Any]) -> float:
    rate = slot["beat"].get("steps_per_second")
    return float(rate) if isinstance(rate, int | float) else 0.0
