"""Our controller on the simulated site: the product's ``reconcile``, ``fold`` and ``plan``.

What is simulated here is what surrounds them: when a pass happens, what it sees, and what becomes
of its actions. A claim or a goodbye leads to a pass within two seconds, as in the product's loop;
everything else is seen at the next regular look. Looks that could show nothing new are counted and
not made: the site tells when something changed, ``Plan.due_at`` when time alone changes a decision.
"""

from __future__ import annotations

from math import ceil, inf

from Daddy.cluster.orchestrator.actions import (
    Action,
    Amend,
    Cancel,
    EndTerm,
    Notify,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.control_parameters import HOT_FOR_S, SILENCE_S, Policy
from Daddy.cluster.orchestrator.decisions.capacity import limit_refused
from Daddy.cluster.orchestrator.history import Entry, fold
from Daddy.cluster.orchestrator.plan import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.records import Desired, Ledger, Mode
from Daddy.cluster.orchestrator.simulate.eyes import Eyes
from Daddy.cluster.orchestrator.simulate.jobs import DRAINED, Job, Stage
from Daddy.cluster.orchestrator.simulate.seats import Seat, Seats
from Daddy.cluster.orchestrator.simulate.site import Site
from Daddy.core.stopping import drain_margin

RUNS_S = 13_500.0
"""``training.max_runtime_seconds`` as it comes."""
_LOOK_S = 3.0
_TAKEOVER_S = 90.0
"""Until the next job's sidecar takes over where there is no daemon."""
_KILL_WAIT_S = 30.0
_WATCHED_S = 6 * 3600.0
"""After a failure first checkpoints matter to ``plan`` for this long."""


class Ours:
    """One run of ours. ``daemon``: whether a controller lives on the login node."""

    def __init__(self, site: Site, policy: Policy | None = None, *, daemon: bool = True) -> None:
        scenario = site.scenario
        self.site = site
        self.policy = policy or Policy(max_running=scenario.cap, limit_s=scenario.limit_s)
        self.daemon = daemon
        self.ledger = Ledger()
        self.wanted = Desired(Mode.RUN, scenario.cap, "first")
        self.seats = Seats(site, scenario.cap, self._claimed)
        self.eyes = Eyes(site)
        self.jobs: dict[str, Job] = {}
        self.passes = 0
        self._broken: set[str] = set()
        self._wake = 0.0
        self._step = self.policy.pass_s
        self._next = inf
        self._asleep_until = 0.0
        self._hot_until = 0.0
        self._failed_at = -inf

    # what the site tells --------------------------------------------------------------------

    def begin(self) -> None:
        site = self.site
        facts: dict[str, object] = {"max_running": site.scenario.cap, "enforced": True}
        if site.scenario.max_submit is not None:
            facts["max_submitted"] = site.scenario.max_submit
        self._note("start")
        self._note("learnt", site=facts)
        for death in site.weather.deaths if self.daemon else ():
            site.at(death, self._die)
        for number, (begin, end) in enumerate(site.weather.deploys):
            self._broken.add(f"broken-{number}")
            site.at(begin, lambda name=f"broken-{number}": self._deploy(name))  # type: ignore[misc]
            site.at(end, lambda name=f"mended-{number}": self._deploy(name))  # type: ignore[misc]
        for begin, _ in site.weather.maintenance:
            for hint in (begin - self.policy.limit_s, begin - 1800):
                site.at(max(0.0, hint), self._seen)
        site.at(0.0, self._pass)

    def _deploy(self, release: str) -> None:
        """The person says start, with other code."""
        self.wanted = Desired(Mode.RUN, self.wanted.slots, release)
        self._note("start")
        self._told()

    def _die(self) -> None:
        self._asleep_until = self.site.now + self.site.scenario.rates.watchdog_s
        self.site.at(self._asleep_until, self._pass)

    def started(self, job: Job) -> None:
        self.seats.seek(job)
        if not self.daemon:
            self.site.at(self.site.now, self._pass)
        self._seen()

    def _claimed(self, job: Job, seat: Seat) -> None:
        self.site.boot(job, broken=seat.release in self._broken)
        self._told()

    def trains(self, job: Job) -> None:
        self.site.train(job)
        self.site.at(self.site.now + self.site.scenario.checkpoint_s, lambda: self._progress(job))

    def _progress(self, job: Job) -> None:
        seat = self.seats.of(job)
        if seat is None or job.stage is not Stage.TRAINING:
            return
        seat.checkpoint_term = seat.term
        unproven = seat.release not in self.ledger.proven
        if unproven or self.site.now - self._failed_at < _WATCHED_S:
            self._seen()

    def silent(self, job: Job) -> None:
        late = self.site.now + SILENCE_S
        self.site.at(late, lambda: self._seen() if job.running else None)

    def leaves(self, job: Job) -> None:
        pass

    def ended(self, job: Job) -> None:
        seat = self.seats.of(job)
        if seat is not None and job.exit_code == DRAINED:
            if job.trains_from is not None:
                seat.checkpoint_term = seat.term
            seat.goodbye = "wall time"
            self._told()
        elif job.exit_code != DRAINED:
            self._failed_at = self.site.now
        if not self.daemon and seat is self.seats.seats[0]:
            self._asleep_until = self.site.now + _TAKEOVER_S
        self._seen()

    # when to look ---------------------------------------------------------------------------

    def _told(self) -> None:
        """A small file says that something happened."""
        if self.daemon:
            self._look_at(self.site.now + self.site.luck.uniform(0, _LOOK_S))
        else:
            self._seen()

    def _seen(self) -> None:
        """The next regular look will show it."""
        self._look_at(self._regular(self.site.now))

    def _regular(self, now: float) -> float:
        """The first regular look at or after ``now``."""
        return self._wake + self._looks_between(now) * self._step

    def _looks_between(self, now: float) -> int:
        """Regular looks after the one at ``_wake`` that are due before ``now``."""
        return max(0, ceil((now - self._wake) / self._step))

    def _look_at(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self.site.at(when, lambda: self._pass() if self._next == when else None)

    # a pass ---------------------------------------------------------------------------------

    def _pass(self) -> None:
        site, now = self.site, self.site.now
        self._next = inf
        if now < self._asleep_until or not self._awake():
            self._look_at(max(self._asleep_until, now + self.policy.pass_s))
            return
        self._count_looks()
        if site.down:
            self._wake = now + self.policy.pass_s
            self._look_at(self._wake)
            return
        snapshot = self.eyes.look()
        seen = reconcile(self.ledger, snapshot, self.seats.views(), self.policy, now)
        self.ledger = fold(self.ledger, *seen)
        decided = plan(self.wanted, self.ledger, snapshot, self.policy, now)
        self.passes += 1
        if decided.orders is not None:
            self.seats.orders = decided.orders
        self._wake = max(decided.wake_at, now + 1.0)
        full = all(one.goodbye is None for one in self.seats.seats)
        self._step = self.policy.quiet_pass_s if full else self.policy.pass_s
        self._apply(decided.actions)
        asked = any(isinstance(one, Signal | Cancel) for one in decided.actions)
        due = self._wake if asked else decided.due_at
        if due < inf:
            self._look_at(max(due, now + 1.0))

    def _awake(self) -> bool:
        """Whether there is anybody to make a pass: without a daemon, a job that runs."""
        fine = (Stage.BOOTING, Stage.TRAINING, Stage.HUNG)
        nobody_yet = not self.jobs
        return self.daemon or nobody_yet or any(one.stage in fine for one in self.site.running)

    def _count_looks(self) -> None:
        hot = max(0.0, min(self._hot_until, self.site.now) - self._wake)
        regular = self._looks_between(self.site.now)
        self.site.books.commands += 1 + regular + int(hot / self.policy.hot_pass_s)

    # what becomes of actions ----------------------------------------------------------------

    def _apply(self, actions: tuple[Action, ...]) -> None:
        discouraged = False
        for action in actions:
            if isinstance(action, Submit):
                discouraged = discouraged or not self._submit(action)
            elif isinstance(action, EndTerm):
                self.seats.end(action.slot, action.term, action.reason)
                self._note("freed", slot=action.slot, term=action.term)
            elif isinstance(action, Notify):
                self._note("noticed", notice=action.kind)
            else:
                assert isinstance(action, Amend | Signal | Cancel), f"{action} was not expected"
                self._touch(action, self.jobs[action.token])

    def _submit(self, action: Submit) -> bool:
        site = self.site
        number = self.ledger.next_number
        token = f"{number:012x}"
        limit = site.scenario.limit_s
        runs = min(RUNS_S, limit - drain_margin(limit))
        after = None if action.after is None else self._numbered(action.after)
        job = Job(number, 0, site.now, runs, limit, after, token, excluded=action.exclude)
        facts: dict[str, object] = {"number": number, "release": action.release}
        if action.after is not None:
            facts["after"] = action.after
        self._note("intent", token, **facts, exclude=action.exclude)
        site.books.commands += 1
        self._hot_until = site.now + HOT_FOR_S
        self.jobs[token] = job
        if not site.submit(job):
            self._note("learnt", site=limit_refused(self.ledger))
            self._note("rejected", token, reason="refused: AssocMaxSubmitJobLimit")
            return False
        self.eyes.add(job)
        self._note("submitted", token, job_id=number)
        return True

    def _numbered(self, number: int) -> Job | None:
        return next((one for one in self.jobs.values() if one.number == number), None)

    def _touch(self, action: Amend | Signal | Cancel, job: Job) -> None:
        site = self.site
        site.books.commands += 1
        if isinstance(action, Signal):
            site.at(site.now + 1.0, lambda: site.leave(job))
            self._note("signalled", job.token)
        elif isinstance(action, Cancel):
            patience = _KILL_WAIT_S if job.stage is Stage.HUNG else 1.0
            site.at(site.now + patience, lambda: site.end(job, "CANCELLED", None))
            self._note("cancelled", job.token)
        else:
            self._amend(action, job)

    def _amend(self, action: Amend, job: Job) -> None:
        facts: dict[str, object] = {}
        if action.hold is not None:
            job.held = facts["hold"] = action.hold
        if action.exclude is not None:
            job.excluded = facts["exclude"] = action.exclude
        if action.limit_s is not None:
            job.limit_s = facts["limit_s"] = action.limit_s
            job.runs_s = min(job.runs_s, action.limit_s - drain_margin(action.limit_s))
        self._note("amended", job.token, **facts)
        if job.stage is Stage.WAITING:
            self.site.changed()

    def _note(self, kind: str, token: str = "", **data: object) -> None:
        self.ledger = fold(self.ledger, Entry(kind, self.site.now, token, data))
