"""The lines that a program in a sandbox prints are claims: parsed strictly, bounded, counted."""

import json

import pytest

from Daddy.fanout.program_lines import LONGEST_LINE, ProgramReport


def report_of(*lines: object) -> ProgramReport:
    report = ProgramReport()
    for line in lines:
        report.add_line(line if isinstance(line, str) else json.dumps(line))
    return report


def progress(episode: int, reward: float = 500.0, **more: object) -> dict[str, object]:
    return {"episode": episode, "reward": reward, **more}


def test_ninety_nine_episodes_of_five_hundred_are_not_solved() -> None:
    report = report_of(*(progress(number) for number in range(1, 100)))
    assert report.average == 500.0
    assert not report.result()["solved"]
    report.add_line(json.dumps(progress(100)))
    assert report.result()["solved_at"] == 100


def test_a_mean_of_all_episodes_that_a_program_claims_counts_from_the_hundredth() -> None:
    assert report_of(progress(99, avg_100=500.0, solved=True, solved_at=1)).solved_at is None
    assert report_of(progress(100, avg_100=195.0)).solved_at == 100
    assert report_of(progress(100, avg_100=194.99, solved=True)).solved_at is None


def test_a_few_lines_without_an_average_are_few_episodes() -> None:
    assert report_of(progress(50), progress(100), progress(150)).solved_at is None


def test_the_episode_at_which_it_was_solved_lies_within_the_episodes_played() -> None:
    assert report_of(progress(150, avg_100=300.0, solved_at=120)).solved_at == 120
    for lie in (1, 99, 151, -5, True, "120", 1e9, None):
        assert report_of(progress(150, avg_100=300.0, solved_at=lie)).solved_at == 150


@pytest.mark.parametrize(
    "line",
    [
        '{"episode": 50, "reward": NaN}',
        '{"episode": 50, "reward": Infinity}',
        '{"episode": 50, "reward": 1e400}',
        '{"episode": 50, "reward": 1e13}',
        '{"episode": 50, "reward": true}',
        '{"episode": 50, "reward": "500"}',
        '{"episode": true, "reward": 1}',
        '{"episode": 0, "reward": 1}',
        '{"episode": 1.5, "reward": 1}',
        '{"episode": 50}',
        '{"reward": 1}',
        '{"episode": 50, "episode": 51, "reward": 1}',
        '{"episode": 50, "reward": 1, "avg_100": "high"}',
        '{"episode": 50, "reward": 1',
        '{"status": "complete", "final_avg": 500.0, "best": 500.0}',
        '{"a":' * 1000,
        '{"episode": 1, "reward": 1, "x": "' + "x" * LONGEST_LINE + '"}',
        '{"episode": ' + "9" * 4000 + ', "reward": 1}',
    ],
)
def test_a_line_of_another_form_is_dropped_and_counted(line: str) -> None:
    report = report_of(line)
    assert (report.episode, report.complete, report.dropped) == (0, False, 1)


def test_text_beside_the_lines_is_no_fault() -> None:
    report = report_of("Using cpu device", "", "[1, 2]", progress(50))
    assert (report.episode, report.dropped) == (50, 0)


def test_episodes_only_grow_and_nothing_follows_the_end() -> None:
    end = {"status": "complete", "final_avg": 20.0, "best": 30.0}
    report = report_of(progress(100, 10.0), progress(50), end, progress(150), end)
    assert (report.episode, report.average, report.best, report.dropped) == (100, 20.0, 30.0, 3)


def test_the_final_line_alone_solves_nothing() -> None:
    end = {"status": "complete", "final_avg": 500.0, "best": 500.0, "solved": True, "solved_at": 1}
    assert not report_of(progress(300, 9.0, avg_100=9.0), end).result()["solved"]


def test_a_sandbox_does_not_name_itself() -> None:
    named = report_of(progress(50, sandbox_id="sb-00099", index=99)).result()
    assert named == report_of(progress(50)).result()
