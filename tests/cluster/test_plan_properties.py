"""Properties of the planner under random events (Hypothesis state machines).

No more live jobs than slots and successors (1), no token twice (2), no action on
jobs that were not listed (3), no submission once the run is to end (4), every slot trains when no
events disturb (5), submissions keep to the rate (6), a controller killed between any two effects
changes nothing in the end (7), an applied plan leaves nothing to plan (8), terms only grow (10), a
time limit is no failure (11), a bad slot costs no other slot a job (12). ``test_apply_plan`` shows
that a controller that lost its term does nothing (9).
"""

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from Daddy.cluster.orchestrator.action_types import Cancel, Signal, Submit
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import DesiredRun, JobOutcome, Mode, SiteLimits
from Daddy.cluster.orchestrator.decisions.circuit_breaker import find_holds
from tests.cluster.world import Job, World

SLOTS, SPARES, EXTRA = 3, 3, 2
POOL = ControllerPolicy(
    pass_s=60, absence_gap_s=30, answer_s=0, max_running=SLOTS, spares=SPARES, extra=EXTRA,
    delays_s=(0, 60, 300), canary_s=300, forget_s=3600, hourly=40, enforced=True,
)  # fmt: skip
MOST = SLOTS + SPARES + EXTRA


class Fleet(RuleBasedStateMachine):
    """Kills the controller at any step, on a site with random events."""

    policy = POOL

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.policy, DesiredRun(Mode.RUN, SLOTS))
        self.terms: dict[int, int] = {}

    @rule(effects=st.integers(0, 12))
    def a_pass_that_may_be_killed(self, effects: int) -> None:
        self.judge(self.world.one_pass(effects=effects))

    @rule()
    def a_whole_pass(self) -> None:
        self.judge(self.world.one_pass())

    def judge(self, planned) -> None:
        """Plan and apply; the controller may die between any two effects."""
        wished = sum(isinstance(action, Submit) for action in planned)
        if wished:
            assert self.world.desired.mode in (Mode.RUN, Mode.PAUSED)
            assert self.world.lived + wished <= MOST

    @rule()
    def a_blind_pass_changes_nothing(self) -> None:
        entries = list(self.world.entries)
        assert self.world.one_pass(blind=True) == ()
        assert self.world.entries == entries

    @rule()
    def the_site_starts_a_job(self) -> None:
        self.world.start_one()

    @rule(index=st.integers(0, 5), how=st.sampled_from(["wall", "crash", "scancel", "vanish"]))
    def a_job_ends(self, index: int, how: str) -> None:
        self.world.end(index, how)

    @rule(number=st.integers(0, SLOTS - 1))
    def a_checkpoint_is_written(self, number: int) -> None:
        self.world.progress(number)

    @rule(answer=st.sampled_from(["silent", "never", "late"]))
    def an_answer_will_be_lost(self, answer: str) -> None:
        self.world.answers.append(answer)

    @rule(seconds=st.sampled_from([1, 31, 61, 3700]))
    def time_passes(self, seconds: int) -> None:
        self.world.now += seconds

    @precondition(lambda self: self.world.desired.mode is Mode.RUN)
    @rule(mode=st.sampled_from([Mode.DRAIN, Mode.NOW]))
    def stop_is_said(self, mode: Mode) -> None:
        self.world.desired = DesiredRun(mode, SLOTS)

    @precondition(lambda self: self.world.desired.mode is Mode.PAUSED)
    @rule()
    def start_is_said_again(self) -> None:
        self.world.say_start()

    @invariant()
    def never_more_running_than_the_cap(self) -> None:
        assert len(self.world.running) <= SLOTS

    @invariant()
    def no_job_holds_two_slots_and_no_slot_two_jobs(self) -> None:
        held = [slot.token for slot in self.world.slots if slot.end_reason is None]
        assert len(held) == len(set(held))

    @invariant()
    def no_token_is_used_twice(self) -> None:
        intents = [entry.token for entry in self.world.entries if entry.kind == "intent"]
        assert len(intents) == len(set(intents))

    @invariant()
    def submissions_keep_to_their_rate(self) -> None:
        hours = Counter(
            int(entry.ts - 1000.0) // 3600
            for entry in self.world.entries
            if entry.kind == "intent" and not entry.data.get("adopted")
        )
        assert all(count <= 2 * self.policy.hourly for count in hours.values())

    @invariant()
    def terms_only_grow(self) -> None:
        for number, slot in enumerate(self.world.slots):
            assert slot.term >= self.terms.get(number, 0)
            self.terms[number] = slot.term

    @invariant()
    def wall_time_holds_nothing(self) -> None:
        ledger = self.world.ledger
        ends = {attempt.outcome for attempt in ledger.attempts if attempt.outcome is not None}
        refused = any(attempt.reason.startswith("refused") for attempt in ledger.attempts)
        if ends <= {JobOutcome.DRAINED} and not refused:
            assert find_holds(ledger, self.policy, self.world.now)[0] == ()

    def teardown(self) -> None:
        """Without further events every history ends with full slots, or none."""
        for _ in range(2):  # what was cancelled just before the calm pauses the run within it
            if self.world.desired.mode is Mode.PAUSED:
                self.world.say_start()
            self.world.settle()
        live = self.world.ledger.live
        queue = [*self.world.running, *self.world.pending]
        assert {job.token for job in queue} == {attempt.token for attempt in live}
        if self.world.desired.mode is Mode.RUN:
            assert sum(attempt.training for attempt in live) == SLOTS
            assert self.ahead(len(live) - SLOTS)
            assert self.world.one_pass() == ()
        else:
            assert self.world.concluded is Mode.STOPPED
            assert live == ()

    def ahead(self, waiting: int) -> bool:
        return SPARES <= waiting <= SPARES + EXTRA


class ChainedFleet(Fleet):
    """Does the same where no cap is known: each successor waits behind its predecessor."""

    policy = replace(POOL, enforced=False)

    def ahead(self, waiting: int) -> bool:
        return SPARES <= waiting <= SPARES + EXTRA


class LateFleet(Fleet):
    """Does the same where no job may wait."""

    def __init__(self) -> None:
        super().__init__()
        self.world.learn(SiteLimits(counts_waiting=True))

    def ahead(self, waiting: int) -> bool:
        return 0 <= waiting <= SPARES + EXTRA


class BadSlot(RuleBasedStateMachine):
    """Fails every job in slot 0: the other slots lose no job for it, nor their successors."""

    policy = replace(POOL, delays_s=(0, 60, 3000))

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.policy, DesiredRun(Mode.RUN, SLOTS))
        self.world.settle(10)

    @property
    def neighbours(self) -> dict[int, Job]:
        """The jobs that train in the other slots, by slot."""
        return {job.slot: job for job in self.world.running if job.slot in range(1, SLOTS)}

    @rule(seconds=st.sampled_from([1, 61, 400]))
    def a_pass(self, seconds: int) -> None:
        self.world.now += seconds
        touched = [act for act in self.world.one_pass() if isinstance(act, Cancel | Signal)]
        assert not {act.token for act in touched} & {job.token for job in self.neighbours.values()}

    @rule()
    def the_site_starts_a_job(self) -> None:
        self.world.start_one()

    @rule()
    def the_bad_slot_strikes(self) -> None:
        self.end(0, "crash")

    @rule(number=st.integers(1, SLOTS - 1))
    def a_neighbour_hands_over(self, number: int) -> None:
        """End a neighbour after ten minutes; its successor starts as soon as the site allows."""
        self.a_pass(600)
        self.end(number, "wall")
        for _ in range(3):
            self.a_pass(1)
            self.world.start_one()
            self.world.start_one()
        assert number in self.neighbours
        self.world.progress(number)
        self.a_pass(1)
        self.a_pass(1)
        assert self.is_followed(self.neighbours[number])

    def is_followed(self, job: Job) -> bool:
        """Return True where a successor of the job waits, which a pool does not need."""
        return self.policy.enforced or any(
            waiting.after == job.job_id and not waiting.held for waiting in self.world.pending
        )

    def end(self, number: int, how: str) -> None:
        """End the job that trains in a slot, if any."""
        for index, job in enumerate(self.world.running):
            if job.slot == number:
                self.world.end(index, how)
                return

    @invariant()
    def the_neighbours_train(self) -> None:
        assert len(self.neighbours) == SLOTS - 1


class BadChainedSlot(BadSlot):
    """Does the same where each successor waits behind its predecessor."""

    policy = replace(BadSlot.policy, enforced=False)


OFTEN = settings(
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
TestPool = Fleet.TestCase
TestPool.settings = OFTEN
TestChain = ChainedFleet.TestCase
TestChain.settings = OFTEN
TestLate = LateFleet.TestCase
TestLate.settings = OFTEN
TestBadSlot = BadSlot.TestCase
TestBadSlot.settings = settings(OFTEN, max_examples=30)
TestBadChainedSlot = BadChainedSlot.TestCase
TestBadChainedSlot.settings = settings(OFTEN, max_examples=30)


def test_a_site_that_counts_waiting_jobs_gets_none() -> None:
    world = World(replace(POOL, enforced=False), DesiredRun(Mode.RUN, SLOTS))
    world.learn(SiteLimits(max_submitted=SLOTS + 1))
    world.settle(20)
    assert (len(world.running), len(world.pending)) == (SLOTS, 0)
