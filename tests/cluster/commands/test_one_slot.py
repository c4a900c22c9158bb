"""``restart`` and ``stop --slot``: one slot's job ends with a checkpoint, the others train on."""

import pytest

from Daddy.cluster.orchestrator.control_files import DesiredRun, read_intent, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.lease import read_lease
from tests.cluster.conftest import Person, until


def ends(person: Person, slot: int) -> list[str | None]:
    """Return the reasons for which the slot's terms ended, newest last; None for a living one."""
    view = read_lease(person.run.slot(slot).lease)
    return [] if view is None else [view.ended]


def test_a_stopped_slot_stays_empty_until_it_is_restarted(person: Person) -> None:
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    said = person.run_controller("stop", "--slot", "1")
    assert said.returncode == 0, said.stderr
    assert "slot 1 is empty: `run_controller restart --slot 1`" in said.stdout
    assert ends(person, 1) != [None]
    until(lambda: person.status_in_process["slots"][1]["state"] == "stopped")
    term = person.status()["slots"][1]["term"]
    handed = person.status()["slots"][0]["term"] + 2
    until(lambda: person.status_in_process["slots"][0]["term"] >= handed)
    seen = person.status()
    assert (seen["slots"][1]["state"], seen["slots"][1]["term"]) == ("stopped", term)
    assert "1 is stopped" in seen["said"]
    assert seen["breaker"] == [], "no failure: a job that is not needed"
    again = person.run_controller("restart", "--slot", "1")
    assert again.returncode == 0, again.stderr
    until(lambda: person.status_in_process["slots"][1]["term"] > term)


def test_restart_hands_the_slot_to_the_next_job(person: Person) -> None:
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    view = read_lease(person.run.slot(0).lease)
    assert view is not None
    said = person.run_controller("restart", "--slot", "0")
    assert said.returncode in (0, 2), said.stderr  # 2: the job had just left
    until(lambda: person.status_in_process["slots"][0]["term"] > view.term)


@pytest.mark.parametrize("words", [("restart", "--slot", "0"), ("stop", "--slot", "0")])
def test_a_run_that_is_stopped_and_a_slot_that_is_not_there_are_usage_errors(
    person: Person, words: tuple[str, ...]
) -> None:
    assert "was never started" in person.run_controller(*words).stderr
    intent = DesiredRun(Mode.STOPPED, 2, "local", "r", "x")
    write_intent(person.run, intent, 0.0)
    said = person.run_controller(*words)
    assert (said.returncode, "is stopped" in said.stderr) == (2, True)
    assert read_intent(person.run) == intent
    assert person.run_controller("stop", "--slot", "1", "--now").returncode == 2
