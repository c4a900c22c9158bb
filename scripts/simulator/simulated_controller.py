"""Runs the product's ``reconcile``, ``fold`` and ``plan`` against a simulated site.

Simulated are the time of a pass, the listing that it reads and the effect of its actions. A claim
or the end of a term leads to a pass within three seconds, as in the product's loop; every other
change is read at the next regular pass. Passes without any news are counted and not executed: the
site calls when something changed, and ``Plan.due_at`` is the time from which the plan would change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, inf

from Daddy.cluster.orchestrator.action_types import (
    Action,
    Amend,
    Cancel,
    EndTerm,
    Notify,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.control_parameters import HOT_FOR_S, SILENCE_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    JobState,
    Ledger,
    Mode,
    Orders,
    QueueJob,
    SlotView,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.job_cap import limits_after_refusal
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.core.slot_lease import SLOT_WAIT_S
from Daddy.core.stop_conditions import drain_margin
from scripts.simulator.simulated_site import (
    DRAINED,
    NOT_NEEDED,
    JobPolicy,
    JobStage,
    SimulatedJob,
    SimulatedSite,
)

RUNS_S = 13_500.0
"""Default of ``training.max_runtime_seconds``."""
_POLL_S = 3.0
_TAKEOVER_S = 90.0
"""Seconds until the next job's sidecar takes over where there is no daemon."""
_KILL_WAIT_S = 30.0
_WATCHED_S = 6 * 3600.0
"""Seconds after a failure for which every first checkpoint leads to a pass."""
_LISTED_S = 300.0
"""Seconds for which ended jobs stay in the listing (Slurm's MinJobAge)."""
_HOLDER_SILENCE_S = 120.0
_SEEK_S = 2.0
_SILENT = (JobStage.HUNG, JobStage.DEAD, JobStage.ENDED)
_STAYING = (JobStage.BOOTING, JobStage.TRAINING)


class SimulatedListing:
    """Lists the simulated queue as squeue does."""

    def __init__(self, site: SimulatedSite) -> None:
        self._site = site
        self.jobs: list[SimulatedJob] = []

    def snapshot(self) -> Snapshot:
        site, now = self._site, self._site.now
        self.jobs = [
            job
            for job in self.jobs
            if job.stage is not JobStage.ENDED or now - job.ended <= _LISTED_S
        ]
        full = len(site.running) >= site.scenario.cap
        rows = tuple(_row(job, self._waits(job, full=full)) for job in self.jobs)
        notice = site.scenario.rates.maintenance_notice_s
        windows = site.incidents.maintenance
        begins = (begin for begin, end in windows if begin - notice <= now < end)
        return Snapshot(now, rows, maintenance_ts=next(begins, None))

    def _waits(self, job: SimulatedJob, *, full: bool) -> WaitReason:
        if job.stage is JobStage.WAITING and full:
            return WaitReason.CAP
        waits = job.stage is JobStage.WAITING and not self._site.may_start_now(job)
        return WaitReason.RESERVATION if waits else WaitReason.TURN


def _row(job: SimulatedJob, waits: WaitReason) -> QueueJob:
    if job.stage in (JobStage.BLOCKED, JobStage.WAITING):
        why = "Dependency" if job.stage is JobStage.BLOCKED else waits.value
        return QueueJob(job.number, job.token, JobState.PENDING, "PENDING", why, wait_reason=waits)
    ended = job.stage is JobStage.ENDED
    return QueueJob(
        job.number,
        job.token,
        JobState.ENDED if ended else JobState.RUNNING,
        job.word,
        node=job.node,
        started_ts=job.started if job.node else None,
        ends_ts=job.ended if ended else job.started + job.limit_s,
        exit_code=job.exit_code if ended else None,
    )


@dataclass(slots=True)
class SlotLease:
    """Holds the newest term of a simulated slot's lease."""

    term: int = 0
    job: SimulatedJob | None = None
    end_reason: str | None = "never held"
    release: str = ""
    checkpoint_term: int = 0

    def silent_s(self, now: float) -> float:
        """Return the seconds since the holder's last heartbeat, 0 while it beats."""
        job = self.job
        if job is None or job.stage not in _SILENT:
            return 0.0
        return now - (job.ended if job.silent_from is None else job.silent_from)


class SimulatedLeases:
    """Holds all slots' leases, which simulated jobs claim and the controller reads.

    The rules are those of ``core.slot_lease``: a job claims a slot that the orders name and whose
    term has ended; it waits while a holder leaves or is silent, ends the term of a holder that was
    silent for two minutes, and exits with code 11 when every slot is held by a job that stays.
    ``claimed`` is called after a claim.
    """

    def __init__(
        self, site: SimulatedSite, count: int, claimed: Callable[[SimulatedJob, SlotLease], None]
    ) -> None:
        self.site = site
        self.slots = [SlotLease() for _ in range(count)]
        self.orders = Orders()
        self._claimed = claimed

    def claim_slot(self, job: SimulatedJob) -> None:
        """Let the job claim a slot, or try again every two seconds while one may become free."""
        if not job.running:
            return
        now, waited_s = self.site.now, self.site.now - job.started
        wanted = [slot for slot in sorted(self.orders.slots) if slot < len(self.slots)]
        for number in wanted:
            slot = self.slots[number]
            # the job measures the silence from its own start
            if slot.end_reason is None and min(slot.silent_s(now), waited_s) >= _HOLDER_SILENCE_S:
                slot.end_reason = "no beat"
            if slot.end_reason is not None:
                slot.term, slot.job, slot.end_reason = slot.term + 1, job, None
                slot.release = self.orders.slots[number]
                job.track = number
                self._claimed(job, slot)
                return
        holders = (self.slots[number].job for number in wanted)
        may_free = any(holder is None or holder.stage not in _STAYING for holder in holders)
        if waited_s >= SLOT_WAIT_S or (waited_s > 0 and not may_free):
            self.site.end_job(job, "FAILED", NOT_NEEDED)
        else:
            self.site.call_at(now + _SEEK_S, lambda: self.claim_slot(job))

    def slot_of(self, job: SimulatedJob) -> SlotLease | None:
        """Return the lease that the job holds, or None."""
        held = (slot for slot in self.slots if slot.job is job and slot.end_reason is None)
        return next(held, None)

    def end_term(self, number: int, term: int, reason: str) -> None:
        """Write ``reason`` as the end of a slot's term, if that is the newest and has not ended."""
        slot = self.slots[number]
        if slot.term == term and slot.end_reason is None:
            slot.end_reason = reason

    def views(self) -> tuple[SlotView, ...]:
        """Return the leases as the controller reads them."""
        return tuple(
            SlotView(
                number,
                slot.term,
                slot.job.token,
                slot.end_reason,
                checkpoint_term=slot.checkpoint_term,
                release=slot.release,
                silent_s=slot.silent_s(self.site.now),
            )
            for number, slot in enumerate(self.slots)
            if slot.job is not None
        )


class SimulatedController(JobPolicy):
    """Simulates our controller; ``daemon``: it runs on the login node, or (False) in jobs."""

    def __init__(self, site: SimulatedSite, *, daemon: bool = True) -> None:
        scenario = site.scenario
        self.site = site
        self.policy = ControllerPolicy(max_running=scenario.cap, limit_s=scenario.limit_s)
        self.daemon = daemon
        self.ledger = Ledger()
        self.wanted = DesiredRun(Mode.RUN, scenario.cap, release="first")
        self.leases = SimulatedLeases(site, scenario.cap, self._claimed)
        self.listing = SimulatedListing(site)
        self.jobs: dict[str, SimulatedJob] = {}
        self._broken: set[str] = set()
        self._wake = 0.0
        self._step = self.policy.pass_s
        self._next = inf
        self._down_until = 0.0
        self._hot_until = 0.0
        self._failed_at = -inf

    def submit_first_jobs(self) -> None:
        site = self.site
        cap, most = site.scenario.cap, site.scenario.max_submit
        self._note("start")
        self._note("learnt", site={"max_running": cap, "max_submitted": most, "enforced": True})
        for death in site.incidents.deaths if self.daemon else ():
            site.call_at(death, self._die)
        for number, (begin, end) in enumerate(site.incidents.deploys):
            self._broken.add(f"broken-{number}")
            site.call_at(begin, partial(self._deploy, f"broken-{number}"))
            site.call_at(end, partial(self._deploy, f"mended-{number}"))
        for begin, _ in site.incidents.maintenance:
            for hint in (begin - self.policy.limit_s, begin - 1800):
                site.call_at(max(0.0, hint), self._wake_at_pass)
        site.call_at(0.0, self._pass)

    def _deploy(self, release: str) -> None:
        """Start a new release, as the person does by ``start`` with changed code."""
        self.wanted = DesiredRun(Mode.RUN, self.wanted.slots, release=release)
        self._note("start")
        self._wake_by_file()

    def _die(self) -> None:
        self._down_until = self.site.now + self.site.scenario.rates.watchdog_s
        self.site.call_at(self._down_until, self._pass)

    def on_job_started(self, job: SimulatedJob) -> None:
        self.leases.claim_slot(job)
        if not self.daemon:
            self.site.call_at(self.site.now, self._pass)
        self._wake_at_pass()

    def _claimed(self, job: SimulatedJob, slot: SlotLease) -> None:
        self.site.boot_job(job, broken=slot.release in self._broken)
        self._wake_by_file()

    def on_first_step(self, job: SimulatedJob) -> None:
        self.site.start_training(job)
        saved_at = self.site.now + self.site.scenario.checkpoint_s
        self.site.call_at(saved_at, lambda: self._progress(job))

    def _progress(self, job: SimulatedJob) -> None:
        slot = self.leases.slot_of(job)
        if slot is None or job.stage is not JobStage.TRAINING:
            return
        slot.checkpoint_term = slot.term
        unproven = slot.release not in self.ledger.proven
        if unproven or self.site.now - self._failed_at < _WATCHED_S:
            self._wake_at_pass()

    def on_job_silent(self, job: SimulatedJob) -> None:
        late = self.site.now + SILENCE_S
        self.site.call_at(late, lambda: self._wake_at_pass() if job.running else None)

    def on_job_ended(self, job: SimulatedJob) -> None:
        slot = self.leases.slot_of(job)
        if slot is not None and job.exit_code == DRAINED:
            if job.trains_from is not None:
                slot.checkpoint_term = slot.term
            slot.end_reason = "wall time"
            self._wake_by_file()
        elif job.exit_code != DRAINED:
            self._failed_at = self.site.now
        if not self.daemon and slot is self.leases.slots[0]:
            self._down_until = self.site.now + _TAKEOVER_S
        self._wake_at_pass()

    def _wake_by_file(self) -> None:
        """Schedule the pass that a changed lease or intent file starts, within 3 s."""
        if self.daemon:
            self._schedule_pass(self.site.now + self.site.rng.uniform(0, _POLL_S))
        else:
            self._wake_at_pass()

    def _wake_at_pass(self) -> None:
        """Schedule the next regular pass, which lists the change."""
        self._schedule_pass(self._wake + self._regular_passes() * self._step)

    def _regular_passes(self) -> int:
        """Return the number of regular passes due between ``_wake`` and now."""
        return max(0, ceil((self.site.now - self._wake) / self._step))

    def _schedule_pass(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self.site.call_at(when, lambda: self._pass() if self._next == when else None)

    def _pass(self) -> None:
        site, now = self.site, self.site.now
        self._next = inf
        if now < self._down_until or not self._can_make_pass():
            self._schedule_pass(max(self._down_until, now + self.policy.pass_s))
            return
        self._count_passes()
        if site.down:
            self._wake = now + self.policy.pass_s
            self._schedule_pass(self._wake)
            return
        snapshot = self.listing.snapshot()
        entries = reconcile(self.ledger, snapshot, self.leases.views(), self.policy, now)
        self.ledger = fold(self.ledger, *entries)
        decision = plan(self.wanted, self.ledger, snapshot, self.policy, now)
        if decision.orders is not None:
            self.leases.orders = decision.orders
        self._wake = max(decision.wake_at, now + 1.0)
        full = all(slot.end_reason is None for slot in self.leases.slots)
        self._step = self.policy.quiet_pass_s if full else self.policy.pass_s
        self._apply(decision.actions)
        requested = any(isinstance(action, Signal | Cancel) for action in decision.actions)
        due = self._wake if requested else decision.due_at
        if due < inf:
            self._schedule_pass(max(due, now + 1.0))

    def _can_make_pass(self) -> bool:
        """Return True if a process can make a pass: the daemon, or a running job."""
        fine = (JobStage.BOOTING, JobStage.TRAINING, JobStage.HUNG)
        return self.daemon or not self.jobs or any(job.stage in fine for job in self.site.running)

    def _count_passes(self) -> None:
        hot = max(0.0, min(self._hot_until, self.site.now) - self._wake)
        self.site.gpu_time.commands += (
            1 + self._regular_passes() + int(hot / self.policy.hot_pass_s)
        )

    def _apply(self, actions: tuple[Action, ...]) -> None:
        refused = False
        for action in actions:
            if isinstance(action, Submit):
                refused = refused or not self._submit(action)
            elif isinstance(action, EndTerm):
                self.leases.end_term(action.slot, action.term, action.reason)
                self._note("freed", slot=action.slot, term=action.term)
            elif isinstance(action, Notify):
                self._note("noticed", notice=action.kind)
            else:
                assert isinstance(action, Amend | Signal | Cancel), f"{action} was not expected"
                self._change_job(action, self.jobs[action.token])

    def _submit(self, action: Submit) -> bool:
        site = self.site
        number, limit = self.ledger.next_number, site.scenario.limit_s
        token, runs = _token(number), min(RUNS_S, limit - drain_margin(limit))
        after = None if action.after is None else self.jobs[_token(action.after)]
        job = SimulatedJob(number, 0, site.now, runs, limit, after, token, excluded=action.exclude)
        facts = {"release": action.release, "after": action.after, "exclude": action.exclude}
        self._note("intent", token, number=number, **facts)
        site.gpu_time.commands += 1
        self._hot_until = site.now + HOT_FOR_S
        self.jobs[token] = job
        if not site.submit(job):
            self._note("learnt", site=limits_after_refusal(self.ledger))
            self._note("rejected", token, reason="refused: AssocMaxSubmitJobLimit")
            return False
        self.listing.jobs.append(job)
        self._note("submitted", token, job_id=number)
        return True

    def _change_job(self, action: Amend | Signal | Cancel, job: SimulatedJob) -> None:
        site = self.site
        site.gpu_time.commands += 1
        if isinstance(action, Signal):
            site.call_at(site.now + 1.0, lambda: site.drain_job(job))
            self._note("signalled", job.token)
        elif isinstance(action, Cancel):
            patience = _KILL_WAIT_S if job.stage is JobStage.HUNG else 1.0
            site.call_at(site.now + patience, lambda: site.end_job(job, "CANCELLED", None))
            self._note("cancelled", job.token)
        else:
            self._amend(action, job)

    def _amend(self, action: Amend, job: SimulatedJob) -> None:
        facts: dict[str, object] = {}
        if action.hold is not None:
            job.held = facts["hold"] = action.hold
        if action.exclude is not None:
            job.excluded = facts["exclude"] = action.exclude
        if action.limit_s is not None:
            job.limit_s = facts["limit_s"] = action.limit_s
            job.runs_s = min(job.runs_s, action.limit_s - drain_margin(action.limit_s))
        self._note("amended", job.token, **facts)
        if job.stage is JobStage.WAITING:
            self.site.start_ready_jobs()

    def _note(self, kind: str, token: str = "", **data: object) -> None:
        self.ledger = fold(self.ledger, LedgerEntry(kind, self.site.now, token, data))


def _token(number: int) -> str:
    return f"{number:012x}"
