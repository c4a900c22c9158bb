from Daddy.core.clock import SystemClock
from Daddy.core.job_environment import StartupTimer


class Told(SystemClock):
    at = 100.0

    def now(self):
        return self.at


def test_phases_follow_the_process_through_its_programs():
    clock = Told()
    launcher = StartupTimer(clock, started=99.5)
    launcher.mark("script")
    clock.at = 100.25
    launcher.mark("slot")
    clock.at = 101.0
    learner = StartupTimer.from_environment(launcher.to_environment(), clock)
    learner.mark("interpreter")
    clock.at = 103.0
    learner.mark("libraries")
    assert learner.facts() == {
        "boot_s": 3.5,
        "phases": {"script": 0.5, "slot": 0.25, "interpreter": 0.75, "libraries": 2.0},
    }


def test_without_a_launcher_or_with_nonsense_it_begins_now():
    clock = Told()
    for environ in (
        {},
        {"DADDY_BOOT": "{"},
        {"DADDY_BOOT": '{"started": 1}'},
        {"DADDY_BOOT": "[]"},
    ):
        assert StartupTimer.from_environment(environ, clock).facts() == {
            "boot_s": 0.0,
            "phases": {},
        }


def test_a_clock_that_is_set_back_makes_no_negative_phase():
    clock = Told()
    boot = StartupTimer(clock)
    clock.at = 50.0
    boot.mark("libraries")
    assert boot.facts()["phases"] == {"libraries": 0.0}


def test_who_waits_for_a_phase_is_told_when_it_is_marked():
    boot = StartupTimer(Told())
    assert not boot.wait("weights", 0.0)
    boot.mark("weights")
    assert boot.has_passed("weights")
    assert boot.wait("weights", 0.0)
