"""Tests of the progress lines on the console."""

import threading
from collections.abc import Mapping, Sequence

import pytest

from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.learning.console import ConsoleReporter


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.time += seconds
        return stop.is_set()


class Sinks:
    """An event sink and a frame sink that record all calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, dict[str, object]]] = []
        self.reports: list[AgentReport] = []
        self.pictures: list[tuple[int, bytes]] = []

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        self.events.append((event, step, dict(data)))

    request_counter = b"\1"

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        return True, frozenset({1})

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        self.reports += reports

    def send_picture(self, agent: int, picture: bytes) -> None:
        self.pictures.append((agent, picture))


def agent(number: int, badges: int, flags: int = 0, value: float = 0.0) -> AgentReport:
    return AgentReport(number, badges, flags, value, 0, 1, f"Town {number}", 5, 10)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sinks() -> Sinks:
    return Sinks()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def console(clock: Clock, sinks: Sinks, said: list[str]) -> ConsoleReporter:
    return ConsoleReporter(sinks, sinks, clock, said.append, every_s=10.0)


def test_everything_is_handed_on(console: ConsoleReporter, sinks: Sinks) -> None:
    console.write("metric", 5, {"steps_per_second": 10.0})
    console.send_reports([agent(0, 1)])
    console.send_picture(1, bytes(SCREEN_BYTES))
    assert sinks.events == [("metric", 5, {"steps_per_second": 10.0})]
    assert sinks.reports == [agent(0, 1)]
    assert sinks.pictures == [(1, bytes(SCREEN_BYTES))]
    assert (console.request_counter, console.poll_requests()) == (b"\1", (True, {1}))


def test_a_line_comes_at_most_every_ten_seconds(
    console: ConsoleReporter, clock: Clock, said: list[str]
) -> None:
    for second in range(35):
        clock.time = 100.0 + second
        console.write("metric", second * 10, {"steps_per_second": 100.0})
    assert len(said) == 3
    assert said[0] == "step 100 · 100 steps/s · 0 episodes"


def test_the_line_tells_returns_and_the_furthest_agent(console: ConsoleReporter) -> None:
    console.write("metric", 1000, {"steps_per_second": 100.0})
    console.write("result", 1000, {"result": "episodes", "returns": [1.0, 2.0]})
    console.send_reports([agent(0, 1, 9, 9.0), agent(1, 2, 3)])
    console.send_reports([agent(0, 0)])
    assert console.progress_line() == (
        "step 1,000 · 100 steps/s · 2 episodes · mean return 1.50 · "
        "best agent: badges 2, story flags 3 at Town 1"
    )


def test_a_version_is_announced_at_once(console: ConsoleReporter, said: list[str]) -> None:
    console.write("state", 0, {"state": "playing", "version": 7, "sha": "ab" * 32})
    assert said == ["playing version 7 (sha256 abababababab)"]


@pytest.mark.parametrize(
    ("receipt", "line"),
    [
        (
            {"accepted": True, "version": 9, "share": 0.25},
            "contribution 2 was accepted into version 9 (share 25%)",
        ),
        ({"accepted": False, "reason": "too old"}, "contribution 2 was refused: too old"),
    ],
)
def test_what_became_of_a_contribution_is_said(
    console: ConsoleReporter, said: list[str], receipt: dict[str, object], line: str
) -> None:
    console.write("state", 0, {"state": "receipt", "sequence": 2, **receipt})
    assert said == [line]


def test_a_contribution_that_is_not_due_is_not_worth_a_line(
    console: ConsoleReporter, said: list[str]
) -> None:
    console.write("state", 0, {"state": "published", "said": "not yet: due in 20 s"})
    console.write("state", 0, {"state": "published", "said": "contribution 1 on v3"})
    assert said == ["contribution 1 on v3"]


def test_trouble_is_said(console: ConsoleReporter, said: list[str]) -> None:
    console.write("error", 0, {"text": "kf-1 is damaged"})
    assert said == ["error: kf-1 is damaged"]


def test_an_error_that_the_event_log_has_is_not_repeated(sinks: Sinks, clock: Clock) -> None:
    lines: list[str] = []
    console = ConsoleReporter(sinks, sinks, clock, lines.append, print_errors=False)
    console.write("error", 0, {"text": "kf-1 is damaged"})
    assert lines == []


def test_the_farewell_sums_up_the_stay(console: ConsoleReporter, clock: Clock) -> None:
    for version in (3, 4, 4):
        console.write("state", 0, {"state": "playing", "version": version, "sha": ""})
    console.write("state", 0, {"state": "receipt", "sequence": 1, "accepted": False})
    console.write("result", 1200, {"result": "episodes", "returns": [1.0]})
    clock.time += 60
    assert console.summary_line("signal SIGINT") == (
        "ended (signal SIGINT): 1,200 steps in 60 s, 1 episodes, 2 versions, last 4, "
        "contributions accepted 0, refused 1"
    )


def test_who_played_nothing_hears_so(console: ConsoleReporter) -> None:
    assert console.summary_line("signal SIGINT") == (
        "ended (signal SIGINT): nothing was played, 0 episodes"
    )
