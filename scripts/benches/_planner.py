"""Measures the CPU time of one pass of the planner by fleet size, and for a long listing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
    JobState,
    Ledger,
    Mode,
    Phase,
    QueueJob,
    SiteLimits,
    SlotView,
    Snapshot,
)
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.slurm_squeue import LISTING, job_comment, job_name, parse_listing

NOW = 1_700_000_000.0
RUN = "bench-000000"
LISTED = 20_000
_EACH = 3
"""Passes of one size in a round; the fastest counts."""


@dataclass(frozen=True)
class Fleet:
    """Holds a fleet whose slots train and have waiting successors, so the plan is empty."""

    desired: DesiredRun
    ledger: Ledger
    snapshot: Snapshot
    views: tuple[SlotView, ...]
    policy: ControllerPolicy

    def one_pass(self, snapshot: Snapshot) -> None:
        """Reconcile and plan once."""
        entries = reconcile(self.ledger, snapshot, self.views, self.policy, NOW)
        actions = plan(self.desired, self.ledger, snapshot, self.policy, NOW).actions
        assert (entries, actions) == ((), ()), (entries[:2], actions[:2])


def fleet(slots: int) -> Fleet:
    """Make a healthy fleet with ``slots`` slots."""
    attempts, rows = [], []
    for number in range(2 * slots):
        runs = number < slots
        attempts.append(_attempt(number, number if runs else None))
        rows.append(_row(number, runs=runs))
    views = tuple(SlotView(slot, 1, _token(slot), checkpoint_term=1) for slot in range(slots))
    policy = ControllerPolicy(max_running=slots, spares=slots, hourly=100 * slots)
    site = SiteLimits(enforced=True, max_running=slots)
    ledger = Ledger(tuple(attempts), site=site)
    return Fleet(DesiredRun(Mode.RUN, slots), ledger, Snapshot(NOW, tuple(rows)), views, policy)


def _token(number: int) -> str:
    return f"{number:012x}"


def _attempt(number: int, slot: int | None) -> Attempt:
    """Make an attempt from hours ago; with a slot it trains and has a checkpoint."""
    runs = slot is not None
    return Attempt(
        _token(number),
        number + 1,
        Phase.RUNNING if runs else Phase.SUBMITTED,
        NOW - 7000.0,
        job_id=number,
        slot=slot,
        term=1 if runs else None,
        started_ts=NOW - 6000.0 if runs else None,
        claimed_ts=NOW - 6000.0 if runs else None,
        progressed_ts=NOW - 5000.0 if runs else None,
    )


def _row(number: int, *, runs: bool) -> QueueJob:
    state = JobState.RUNNING if runs else JobState.PENDING
    return QueueJob(number, _token(number), state, state.name, ends_ts=NOW + 8000.0)


def pass_ms(*slots: int, rounds: int) -> list[list[float]]:
    """Return milliseconds of reconcile and plan: a list per round, an entry per fleet size.

    A round measures every size for about the same time, so that other load of this machine
    disturbs all sizes alike.
    """
    fleets = [(fleet(size), max(slots) // size) for size in slots]
    return [[_least_ms(partial(each.one_pass, each.snapshot), _EACH, passes)
             for each, passes in fleets] for _ in range(rounds)]  # fmt: skip


def listing_ms(ours: int, repeats: int) -> float:
    """Return milliseconds to parse ``LISTED`` lines of squeue and plan; ``ours``: this run's jobs.

    ``ours`` is even: half of the jobs train, half wait.
    """
    half = fleet(ours // 2)
    text = "".join(_line(number, own=number < ours, runs=number < ours // 2)
                   for number in range(LISTED))  # fmt: skip

    def work() -> None:
        listing = parse_listing(text, RUN)
        assert len(listing.jobs) == ours
        half.one_pass(Snapshot(NOW, listing.jobs, listing.others))

    return _least_ms(work, repeats)


def _line(number: int, *, own: bool, runs: bool) -> str:
    """Format a line as squeue does: each field padded to its width, then a bar."""
    cells = {
        "JobID": str(number),
        "State": "RUNNING" if runs else "PENDING",
        "Reason": "None" if runs else "Priority",
        "StartTime": str(int(NOW) - 6000) if runs else "N/A",
        "EndTime": str(int(NOW) + 8000) if runs else "N/A",
        "exit_code": "0",
        "NodeList": f"n{number}" if runs else "",
        "RestartCnt": "0",
        "Name": job_name(RUN, _token(number)) if own else "sweep",
        "Comment": job_comment(RUN, number + 1, _token(number)) if own else "(null)",
    }
    wanted = (part.split(":") for part in LISTING.split(","))
    return "".join(
        f"{cells.get(name, 'N/A'):<{width.rstrip('|')}}|" for name, width in wanted
    ) + "\n"  # fmt: skip


def _least_ms(work: Callable[[], None], repeats: int, times: int = 1) -> float:
    """Return CPU milliseconds of one call: the least mean over ``times`` calls in ``repeats``."""
    work()
    means = []
    for _ in range(repeats):
        begun = time.process_time()
        for _ in range(times):
            work()
        means.append((time.process_time() - begun) / times)
    return 1000 * min(means)


def figures(*, quick: bool) -> dict[str, object]:
    """Return the figures in ms; limits: 5 ms at 4 slots, 120 times more at 10,000 than at 100."""
    times = pass_ms(4, 100, 10_000, rounds=5 if quick else 25)
    few, many, most = (min(column) for column in zip(*times, strict=True))
    return {
        "slots_4": round(few, 4),
        "slots_100": round(many, 3),
        "slots_10000": round(most, 1),
        "slots_10000_to_100": round(median(most / many for _, many, most in times), 1),
        "listing_lines": LISTED,
        "listing_8_are_ours": round(listing_ms(8, 3), 1),
        "listing_all_are_ours": round(listing_ms(LISTED, 3), 1),
    }
