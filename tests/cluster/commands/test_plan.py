"""The lines of ``plan``: equal actions once, in words."""

import pytest

from Daddy.cluster.orchestrator.action_types import (
    Action,
    Amend,
    Cancel,
    Conclude,
    EndTerm,
    Notify,
    Pause,
    Plan,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.commands.plan import describe_plan
from Daddy.cluster.orchestrator.controller_types import Mode, Orders, Snapshot
from Daddy.cluster.orchestrator.decisions.job_submission import SLOT_IS_EMPTY


def lines_of(*actions: Action, empty: tuple[int, ...] = (), orders: Orders | None = None) -> str:
    plan = Plan(actions, (), wake_at=2.0, orders=orders)
    return "\n".join(describe_plan(plan, Snapshot(0.0, ()), empty, 0.0))


def test_equal_submissions_are_one_line_that_names_the_slots() -> None:
    text = lines_of(*[Submit(SLOT_IS_EMPTY)] * 4, empty=(0, 1, 2, 3))
    assert text.count("submit") == 1
    assert "would    submit 4 jobs: slots 0, 1, 2 and 3 are empty\n" in text
    assert "submit a job of release r2: slot 3 is empty" in lines_of(
        Submit(SLOT_IS_EMPTY, release="r2"), empty=(3,)
    )


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Submit("successor of job 7", 7, ("n1", "n2")), "submit a job after job 7, not on n1, n2"),
        (Amend("t", 5, "why", hold=False, limit_s=3600), "change job 5: release it, limit it to 1"),
        (Amend("t", 5, "why", hold=True, exclude=("n1",)), "change job 5: hold it, keep it off n1"),
        (Signal("t", 6, "why"), "let job 6 write a checkpoint and exit: why"),
        (Cancel("t", 6, "why"), "cancel job 6: why"),
        (EndTerm(1, 3, "why"), "end term 3 of slot 1: why"),
        (Conclude(Mode.STOPPED, "why"), "record the run as stopped and end the controller: why"),
        (Pause("why"), "pause the run: why"),
        (Notify("hold-1", "why"), "notify you: why"),
    ],
)
def test_every_action_is_told_in_words(action: Action, words: str) -> None:
    text = lines_of(action)
    assert f"would    {words}" in text
    assert "False" not in text
    assert "True" not in text


def test_orders_name_the_slots_of_each_release() -> None:
    orders = Orders({0: "r1", 1: "r2", 2: "r1"}, reason="r2 is tried")
    assert (
        "orders   slots 0 and 2 may be claimed for release r1; slot 1 may be claimed for "
        "release r2 (r2 is tried)" in lines_of(Pause("x"), orders=orders)
    )
    assert "orders   slots 0 and 1 may be claimed\n" in lines_of(orders=Orders({0: "", 1: ""}))
