"""Whatever happens, in whatever order: what the planner promises (Hypothesis state machine)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from Daddy.cluster.orchestrator.records import Desired, Mode, Policy, Submit
from tests.cluster.world import World

SLOTS, SPARES = 3, 3
POLICY = Policy(
    pass_s=60, absence_gap_s=30, max_running=SLOTS, spares=SPARES, delays_s=(0, 60, 300)
)


class Fleet(RuleBasedStateMachine):
    """A controller that is killed at any step, on a site where anything happens to jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(POLICY, Desired(Mode.RUN, SLOTS))

    @rule(effects=st.integers(0, 12))
    def a_pass_that_may_be_killed(self, effects: int) -> None:
        before = len(self.world.ledger.live)
        planned = self.world.one_pass(effects=effects)
        submits = sum(isinstance(action, Submit) for action in planned)
        if submits:
            assert before <= SLOTS + SPARES
            assert self.world.desired.mode is Mode.RUN
            assert len(self.world.ledger.live) <= SLOTS + SPARES + len(self.revived())

    @rule()
    def a_whole_pass(self) -> None:
        self.world.one_pass()

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
        self.world.desired = Desired(mode, SLOTS)

    def revived(self) -> list[str]:
        return [one.token for one in self.world.entries if one.data.get("adopted")]

    @invariant()
    def never_more_running_than_the_cap(self) -> None:
        assert len(self.world.running) <= SLOTS

    @invariant()
    def no_job_holds_two_slots_and_no_slot_two_jobs(self) -> None:
        held = [slot.token for slot in self.world.slots if slot.goodbye is None]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        """In calm weather every history ends at the same place: full slots, or none at all."""
        self.world.settle()
        live = self.world.ledger.live
        queue = [*self.world.running, *self.world.pending]
        assert {job.token for job in queue} == {one.token for one in live}
        if self.world.desired.mode is Mode.RUN:
            assert sum(one.training for one in live) == SLOTS
            assert len(live) == SLOTS + SPARES
            assert self.world.one_pass() == ()
        else:
            assert self.world.concluded is Mode.STOPPED
            assert live == ()


Fleet.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestFleet = Fleet.TestCase
