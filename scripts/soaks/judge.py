"""From what the witnesses said to a verdict; no I/O, so that it can be tried on invented logs.

Allocated time is slurmctld's. It is divided by the jobs' own diaries into boot (to the first step),
training, redone work (after the last save of a learner that was killed), drain (from the decision
to leave to slurmctld's word that the job is over); the residue is what nobody accounts for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scripts.soaks.records import Diary, Fault, Ran

HANDOVER_S = 5.0
"""A place that stands empty for longer is a loss and needs a reason."""
AFTERMATH_S = {
    "kill slurmctld": 45.0,
    "freeze slurmctld": 45.0,
    "kill slurmd": 75.0,
    "kill job": 20.0,
    "kill controller": 20.0,
}
"""How long a fault can still be the reason of something: Slurm's time-outs of the testbed."""
EPILOG_S = 1.5
"""Between a learner's last word and slurmctld's that the job is over."""
ENOUGH = 20
"""Hand-overs from which their median says something; of fewer, those that no fault hit count."""
FENCE_S = 0.0
"""A learner whose term was ended may not save anything after the next one's first save."""


@dataclass(frozen=True)
class Evidence:
    """All that is judged, for the time between ``begun`` and ``ended``."""

    begun: float
    ended: float
    places: int
    runs: Sequence[Ran]
    diaries: Sequence[Diary]
    faults: Sequence[Fault]
    known: frozenset[str]
    """Tokens that our ledger knows."""
    left_over: Sequence[str]
    """Jobs and processes that were still there after ``stop``."""


def judge(evidence: Evidence) -> dict[str, object]:
    """Every figure of the soak; ``broken`` lists what must not be."""
    running = _most_running(evidence.runs)
    duplicates, orphans = _duplicates(evidence), _orphans(evidence)
    pairs = _gaps(evidence)
    gaps = sorted(begin - end for end, begin in pairs)
    calm = sorted(b - a for a, b in pairs if not _reason(evidence.faults, a, b))
    losses, shares = _losses(evidence), _shares(evidence)
    unexplained = [*_odd_ends(evidence), *(loss for loss in losses if not loss["why"])]
    broken = [f"{running} jobs ran at once"] if running > evidence.places else []
    broken += [f"duplicate: {one}" for one in duplicates] + [f"orphan: {one}" for one in orphans]
    broken += [f"unexplained: {one}" for one in unexplained]
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
        "handovers": len(gaps),
        "gap_p50_s": round(median(gaps), 3) if gaps else None,
        "gap_p95_s": _p95(gaps),
        "gap_p95_s_without_faults": _p95(calm),
        "faults": _count(evidence.faults),
        "lost_place_seconds": _lost_by_cause(losses),
        "share_of_places_used": round(_used(evidence), 4),
        "time": {name: round(value, 1) for name, value in shares.items()},
        "residue": round(residue, 4),
        "broken": broken,
    }


def _count(faults: Sequence[Fault]) -> dict[str, int]:
    kinds = [fault.kind for fault in faults]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _most_running(runs: Sequence[Ran]) -> int:
    """Ends count before beginnings of the same moment: both are cut to some fineness."""
    moves = sorted([(one.begun, 1) for one in runs] + [(one.ended - 0.002, -1) for one in runs])
    most = now = 0
    for _, step in moves:
        now += step
        most = max(most, now)
    return most


def _duplicates(evidence: Evidence) -> list[str]:
    """A token with two jobs, or a slot in which an older term saved after a newer one had."""
    seen: dict[str, int] = {}
    found = [
        f"token {ran.token} as jobs {seen[ran.token]} and {ran.job_id}"
        for ran in evidence.runs
        if seen.setdefault(ran.token, ran.job_id) != ran.job_id
    ]
    by_slot: dict[int, list[Diary]] = {}
    for diary in evidence.diaries:
        by_slot.setdefault(diary.slot, []).append(diary)
    for slot, diaries in by_slot.items():
        ordered = sorted(diaries, key=lambda one: one.term)
        for older, newer in itertools.pairwise(ordered):
            late = older.saves and newer.saves and older.saves[-1] > newer.saves[0] + FENCE_S
            if late or older.term == newer.term:
                found.append(f"slot {slot}: {older.token} saved after {newer.token}")
    return found


def _orphans(evidence: Evidence) -> list[str]:
    unknown = sorted({ran.token for ran in evidence.runs} - evidence.known)
    return [*(f"nobody knows job {token}" for token in unknown), *evidence.left_over]


def _inside(evidence: Evidence) -> list[Ran]:
    return [ran for ran in evidence.runs if ran.ended > evidence.begun]


def _p95(gaps: Sequence[float]) -> float | None:
    return round(gaps[math.ceil(0.95 * len(gaps)) - 1], 3) if gaps else None


def _gaps(evidence: Evidence) -> list[tuple[float, float]]:
    """Each end of a job that trained with the beginning that followed it, in order."""
    trained = {diary.token for diary in evidence.diaries}
    runs = [ran for ran in _inside(evidence) if ran.token in trained]
    first = min((ran.ended for ran in runs), default=0.0)
    begins = sorted(ran.begun for ran in runs if ran.begun >= first)
    ends = sorted(ran.ended for ran in runs if ran.ended < evidence.ended)
    return [(end, max(end, begin)) for begin, end in zip(begins, ends, strict=False)]


def _losses(evidence: Evidence) -> list[dict[str, object]]:
    """Stretches in which a place stood empty for longer than a hand-over takes, with a reason."""
    moves = [(ran.begun, 1) for ran in evidence.runs] + [(ran.ended, -1) for ran in evidence.runs]
    free: list[float] = []
    losses = []
    busy = 0
    for at, step in sorted(moves):
        before, busy = busy, busy + step
        if step < 0 and before <= evidence.places:
            free.append(at)
        elif step > 0 and free:
            losses.append((free.pop(0), at))
    losses += [(at, evidence.ended) for at in free]
    cut = ((max(a, evidence.begun), min(b, evidence.ended)) for a, b in losses)
    return [
        {"begun": round(a - evidence.begun, 1), "seconds": round(b - a, 1), "why": why}
        for a, b in cut
        if b - a > HANDOVER_S
        for why in [_reason(evidence.faults, a, b)]
    ]


def _reason(faults: Sequence[Fault], begun: float, ended: float, *hit: str) -> str:
    """The newest fault that was at work when it began, or that hit just this place."""
    able = [
        fault
        for fault in faults
        if fault.begun - 1.0 <= ended and begun <= fault.ended + AFTERMATH_S[fault.kind]
        if not hit or not fault.hit or fault.hit in hit
    ]
    return max(able, key=lambda fault: fault.begun).kind if able else ""


def _lost_by_cause(losses: Sequence[dict[str, object]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for loss in losses:
        why = str(loss["why"]) or "unexplained"
        found[why] = round(found.get(why, 0.0) + float(str(loss["seconds"])), 1)
    return found


def _odd_ends(evidence: Evidence) -> list[str]:
    """Jobs that ended neither by leaving (10) nor as not needed (11), and that no fault hit."""
    found = []
    for ran in evidence.runs:
        if ran.ended > evidence.ended or ran.exit_code in (10, 11):
            continue
        if not _reason(evidence.faults, ran.begun, ran.ended, ran.node, ran.token):
            found.append(f"job {ran.job_id} on {ran.node} ended {ran.state} {ran.exit_code}")
    return found


def _used(evidence: Evidence) -> float:
    window = evidence.places * (evidence.ended - evidence.begun)
    return sum(_overlap(ran.begun, ran.ended, evidence) for ran in evidence.runs) / window


def _overlap(begun: float, ended: float, evidence: Evidence) -> float:
    return max(0.0, min(ended, evidence.ended) - max(begun, evidence.begun))


def _shares(evidence: Evidence) -> dict[str, float]:
    """Allocated seconds by what they were used for, over all jobs that ended."""
    names = ("allocated_s", "training_s", "boot_s", "drain_s", "redone_s", "silent_slurm_s")
    total = dict.fromkeys((*names, "residue_s"), 0.0)
    diaries: dict[str, list[Diary]] = {}
    for diary in evidence.diaries:
        diaries.setdefault(diary.token, []).append(diary)
    for ran in _inside(evidence):
        mine = [one for one in diaries.get(ran.token, []) if ran.begun - 2 <= one.born <= ran.ended]
        for name, value in _divide(ran, mine[0] if mine else None, evidence.faults).items():
            total[name] += value
    return total


def _divide(ran: Ran, diary: Diary | None, faults: Sequence[Fault]) -> dict[str, float]:
    """One job's time. What Slurm had not noticed while it was stopped or dead is the fault's."""
    length = ran.ended - ran.begun
    if diary is None or diary.first_step is None:
        hit = ran.exit_code != 11 and _reason(faults, ran.begun, ran.ended, ran.node, ran.token)
        return {"allocated_s": length, ("silent_slurm_s" if hit else "residue_s"): length}
    boot = diary.first_step - ran.begun
    left = min(diary.bye or diary.last_step, ran.ended)  # Slurm may give a node up that trains on
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
