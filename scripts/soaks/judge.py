"""Pure. Checks the logs of a soak for violations and computes its figures.

Allocated time is read from slurmctld's log. The learners' diaries divide it into boot (until the
first step), training, redone work (after the last checkpoint of a learner that was killed) and
drain (from the decision to leave until slurmctld logs the end); the residue is the rest.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scripts.soaks.records import Diary, Fault, Ran

HANDOVER_S = 5.0
"""Seconds of an empty slot above which it is a loss that needs a fault as its cause."""
AFTERMATH_S = {
    "kill slurmctld": 45.0,
    "freeze slurmctld": 45.0,
    "kill slurmd": 75.0,
    "kill job": 20.0,
    "kill controller": 20.0,
    "failing prolog": 45.0,
    "empty listing": 20.0,
    "failing setup": 75.0,
    "full disk": 75.0,
}
"""Seconds after a fault in which it can be a cause, from the test cluster's Slurm timeouts."""
HARMLESS = frozenset({"empty listing", "kill controller"})
"""Faults that excuse no job's end and lengthen no loss: nothing that runs needs what they break."""
EPILOG_S = 1.5
"""Seconds between a learner's last diary entry and the job's end in slurmctld's log."""
NOWHERE = "(null)"
"""Node of a job that never started, in slurmctld's log."""
ENOUGH = 20
"""Hand-overs needed for a median of all; of fewer, only those without a fault are used."""
FENCE_S = 0.0
"""Seconds for which an older term may still save after a newer term's first save."""


@dataclass(frozen=True)
class Evidence:
    """Holds the logs of a soak between ``begun`` and ``ended`` (wall seconds)."""

    begun: float
    ended: float
    places: int
    runs: Sequence[Ran]
    diaries: Sequence[Diary]
    faults: Sequence[Fault]
    known: frozenset[str]
    """Tokens in the controller's ledger."""
    left_over: Sequence[str]
    """Jobs and processes that still ran after ``stop``."""


def judge(evidence: Evidence) -> dict[str, object]:
    """Compute every figure of the soak; ``broken`` lists the violations."""
    running = _most_running(evidence.runs)
    duplicates, orphans = _duplicates(evidence), _orphans(evidence)
    pairs = _gaps(evidence)
    gaps = sorted(begin - end for end, begin in pairs)
    calm = sorted(b - a for a, b in pairs if not _reason(evidence.faults, a, b))
    losses, shares = _losses(evidence), _shares(evidence)
    unexplained = [*_odd_ends(evidence), *(loss for loss in losses if not loss["why"])]
    unexplained += _overdue(evidence, [loss for loss in losses if loss["why"]])
    broken = [f"{running} jobs ran at once"] if running > evidence.places else []
    broken += [f"duplicate: {text}" for _, text in duplicates]
    broken += [f"orphan: {text}" for _, text in orphans]
    broken += [f"unexplained: {text}" for text in unexplained]
    residue = shares["residue_s"] / shares["allocated_s"] if shares["allocated_s"] else 1.0
    if abs(residue) > 0.01:
        broken.append(f"residue of {residue:.2%}")
    typical = gaps if len(gaps) >= ENOUGH else calm
    if typical and median(typical) > 1.5:
        broken.append(f"median hand-over gap of {median(typical):.2f} s")
    return {
        "minutes": round((evidence.ended - evidence.begun) / 60, 2),
        "jobs": sum(1 for ran in evidence.runs if ran.begun < min(ran.ended, evidence.ended)),
        "most_running": running,
        "duplicates": len(duplicates),
        "orphans": len(orphans),
        "left_over": len(evidence.left_over),
        "handovers": len(gaps),
        "gap_p50_s": round(median(gaps), 3) if gaps else None,
        "gap_p95_s": _p95(gaps),
        "gap_p95_s_without_faults": _p95(calm),
        "faults": _by_fault(evidence, losses, duplicates, orphans),
        "lost_place_seconds": _lost_by_cause(losses),
        "share_of_places_used": round(_used(evidence), 4),
        "time": {name: round(value, 1) for name, value in shares.items()},
        "residue": round(residue, 4),
        "broken": broken,
    }


def _by_fault(
    evidence: Evidence,
    losses: Sequence[dict[str, object]],
    duplicates: Sequence[tuple[float, str]],
    orphans: Sequence[tuple[float, str]],
) -> dict[str, dict[str, float]]:
    """Count for each fault its times, and what it can have caused: minutes of GPUs, duplicates."""
    faults, kinds = evidence.faults, sorted({fault.kind for fault in evidence.faults})
    lost: defaultdict[str, float] = defaultdict(float)
    for loss in losses:
        lost[str(loss["why"])] += float(str(loss["seconds"]))
    for ran, parts in _divided(evidence):
        seconds = parts.get("redone_s", 0.0) + parts.get("silent_slurm_s", 0.0)
        cause = _reason(faults, ran.ended - seconds, ran.ended, ran.node, ran.token)
        lost[cause] += seconds
    twins, strays = ([_reason(faults, at, at) for at, _ in many] for many in (duplicates, orphans))
    return {
        kind: {
            "times": sum(fault.kind == kind for fault in faults),
            "gpu_minutes_lost": round(lost[kind] / 60, 2),
            "duplicates": twins.count(kind),
            "orphans": strays.count(kind),
        }
        for kind in kinds
    }


_OVERALL = {
    "jobs": "jobs", "hand-overs": "handovers", "gap p50 (s)": "gap_p50_s",
    "gap p95 without faults (s)": "gap_p95_s_without_faults", "most running": "most_running",
    "left over": "left_over", "controller, MB": "peak_rss_mb",
    "controller, CPU s a day": "cpu_s_per_day",
}  # fmt: skip


def render_figures(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of faults and the overall figures as lines of Markdown."""
    flat = {**figures, **figures["controller"]}
    table = [["fault", "times", "GPU minutes lost", "duplicates", "orphans"], ["---"] * 5]
    table += [[kind, *map(str, row.values())] for kind, row in figures["faults"].items()]
    overall = ", ".join(f"{name} {flat[key]}" for name, key in _OVERALL.items())
    broken = "; ".join(figures["broken"]) or "nothing"
    return [*(f"| {' | '.join(row)} |" for row in table), overall, f"broken: {broken}"]


def _most_running(runs: Sequence[Ran]) -> int:
    """Return the most jobs at once; at equal times ends count first, as times are rounded."""
    moves = sorted([(ran.begun, 1) for ran in runs] + [(ran.ended - 0.002, -1) for ran in runs])
    most = now = 0
    for _, step in moves:
        now += step
        most = max(most, now)
    return most


def _duplicates(evidence: Evidence) -> list[tuple[float, str]]:
    """List tokens with two jobs, and slots in which an older term saved after a newer one, with
    the wall seconds of each.
    """
    first: dict[str, int] = {}
    duplicates = [
        (ran.begun, f"token {ran.token} as jobs {first[ran.token]} and {ran.job_id}")
        for ran in evidence.runs
        if first.setdefault(ran.token, ran.job_id) != ran.job_id
    ]
    by_slot: dict[int, list[Diary]] = {}
    for diary in evidence.diaries:
        by_slot.setdefault(diary.slot, []).append(diary)
    for slot, diaries in by_slot.items():
        ordered = sorted(diaries, key=lambda diary: diary.term)
        for older, newer in itertools.pairwise(ordered):
            late = older.saves and newer.saves and older.saves[-1] > newer.saves[0] + FENCE_S
            if late or older.term == newer.term:
                text = f"slot {slot}: {older.token} saved after {newer.token}"
                duplicates.append((newer.born, text))
    return duplicates


def _orphans(evidence: Evidence) -> list[tuple[float, str]]:
    unknown = {ran.token: ran.begun for ran in evidence.runs if ran.token not in evidence.known}
    orphans = [(begun, f"job {token} is not in the ledger") for token, begun in unknown.items()]
    return [*orphans, *((evidence.ended, text) for text in evidence.left_over)]


def _inside(evidence: Evidence) -> list[Ran]:
    return [ran for ran in evidence.runs if ran.ended > evidence.begun]


def _p95(gaps: Sequence[float]) -> float | None:
    return round(gaps[math.ceil(0.95 * len(gaps)) - 1], 3) if gaps else None


def _gaps(evidence: Evidence) -> list[tuple[float, float]]:
    """Pair each end of a job that trained with the start that followed it, in order."""
    trained = {diary.token for diary in evidence.diaries}
    runs = [ran for ran in _inside(evidence) if ran.token in trained]
    first = min((ran.ended for ran in runs), default=0.0)
    begins = sorted(ran.begun for ran in runs if ran.begun >= first)
    ends = sorted(ran.ended for ran in runs if ran.ended < evidence.ended)
    return [(end, max(end, begin)) for begin, end in zip(begins, ends, strict=False)]


def _losses(evidence: Evidence) -> list[dict[str, object]]:
    """List the times in which a slot was empty for longer than ``HANDOVER_S``, with their cause.

    A begin fills the slot that was emptied last, so that one that stays empty is one long loss.
    """
    moves = [(ran.begun, 1) for ran in evidence.runs] + [(ran.ended, -1) for ran in evidence.runs]
    free: list[float] = []
    losses = []
    busy = 0
    for at, step in sorted(moves):
        before, busy = busy, busy + step
        if step < 0 and before <= evidence.places:
            free.append(at)
        elif step > 0 and free:
            losses.append((free.pop(), at))
    losses += [(at, evidence.ended) for at in free]
    cut = ((max(a, evidence.begun), min(b, evidence.ended)) for a, b in losses)
    return [
        {"begun": round(a - evidence.begun, 1), "seconds": round(b - a, 1), "why": why}
        for a, b in cut
        if b - a > HANDOVER_S
        for why in [_reason(evidence.faults, a, a + HANDOVER_S)]
    ]


def _overdue(evidence: Evidence, losses: Sequence[dict[str, object]]) -> list[str]:
    """List losses that lasted longer than their fault, and those that followed it, can explain."""
    texts = []
    for loss in losses:
        begun = at = evidence.begun + float(str(loss["begun"]))
        ended = begun + float(str(loss["seconds"]))
        able = [f for f in evidence.faults if f.kind not in HARMLESS or f.kind == loss["why"]]
        for fault in sorted(able, key=lambda fault: fault.begun):
            if fault.begun - 1.0 <= at + HANDOVER_S:
                at = max(at, fault.ended + AFTERMATH_S[fault.kind])
        if at < ended:
            texts.append(
                f"a slot was empty for {ended - at:.0f} s more than {loss['why']} explains"
            )
    return texts


def _reason(faults: Sequence[Fault], begun: float, ended: float, *hit: str) -> str:
    """Return the newest fault whose effect overlaps this time; with ``hit`` only if it fits."""
    able = [
        fault
        for fault in faults
        if fault.begun - 1.0 <= ended and begun <= fault.ended + AFTERMATH_S[fault.kind]
        if not hit or not fault.hit or fault.hit in hit
    ]
    return max(able, key=lambda fault: fault.begun).kind if able else ""


def _lost_by_cause(losses: Sequence[dict[str, object]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for loss in losses:
        cause = str(loss["why"]) or "unexplained"
        totals[cause] = round(totals.get(cause, 0.0) + float(str(loss["seconds"])), 1)
    return totals


def _odd_ends(evidence: Evidence) -> list[str]:
    """List jobs that no fault hit with exit codes other than 10 (left) and 11 (not needed).

    A job that never started was cancelled as one too many.
    """
    ends, faults = [], [fault for fault in evidence.faults if fault.kind not in HARMLESS]
    for ran in evidence.runs:
        if ran.ended > evidence.ended or ran.exit_code in (10, 11) or ran.node == NOWHERE:
            continue
        if not _reason(faults, ran.begun, ran.ended, ran.node, ran.token):
            ends.append(f"job {ran.job_id} on {ran.node} ended {ran.state} {ran.exit_code}")
    return ends


def _used(evidence: Evidence) -> float:
    window = evidence.places * (evidence.ended - evidence.begun)
    return sum(_overlap(ran.begun, ran.ended, evidence) for ran in evidence.runs) / window


def _overlap(begun: float, ended: float, evidence: Evidence) -> float:
    return max(0.0, min(ended, evidence.ended) - max(begun, evidence.begun))


def _shares(evidence: Evidence) -> dict[str, float]:
    """Sum the allocated seconds of all ended jobs by their use."""
    names = ("allocated_s", "training_s", "boot_s", "drain_s", "redone_s", "silent_slurm_s")
    total = dict.fromkeys((*names, "residue_s"), 0.0)
    for _, parts in _divided(evidence):
        for name, value in parts.items():
            total[name] += value
    return total


def _divided(evidence: Evidence) -> Iterator[tuple[Ran, dict[str, float]]]:
    diaries: dict[str, list[Diary]] = {}
    for diary in evidence.diaries:
        diaries.setdefault(diary.token, []).append(diary)
    for ran in _inside(evidence):
        written = (d for d in diaries.get(ran.token, []) if ran.begun - 2 <= d.born <= ran.ended)
        yield ran, _divide(ran, next(written, None), evidence.faults)


def _divide(ran: Ran, diary: Diary | None, faults: Sequence[Fault]) -> dict[str, float]:
    """Divide one job's time by use; ends that Slurm noticed late after a fault count as its."""
    length = ran.ended - ran.begun
    if diary is None or diary.first_step is None:
        hit = ran.exit_code != 11 and _reason(faults, ran.begun, ran.ended, ran.node, ran.token)
        return {"allocated_s": length, ("silent_slurm_s" if hit else "residue_s"): length}
    boot = diary.first_step - ran.begun
    left = min(diary.bye or diary.last_step, ran.ended)  # the node may train after Slurm gave it up
    tail = ran.ended - left
    trained_to = diary.drain or (diary.saves[-1] if diary.saves else diary.first_step)
    trained_to = min(trained_to, left)
    after = left - trained_to
    parts = {
        "boot_s": boot,
        "training_s": max(0.0, trained_to - diary.first_step),
        "drain_s" if diary.drain else "redone_s": after,
    }
    if tail <= EPILOG_S:
        parts["drain_s"] = parts.get("drain_s", 0.0) + tail
    elif _reason(faults, left, ran.ended, ran.node, ran.token):
        parts["silent_slurm_s"] = tail
    return {"allocated_s": length, **parts, "residue_s": length - sum(parts.values())}
