"""Records of a training: ends of completions, lines after a checkpoint, what a person sees."""

import json
import random
from pathlib import Path

import pytest

from Daddy.codegen.codegen_run import (
    CodegenPaths,
    describe_step,
    has_end,
    link_results,
)
from Daddy.codegen.tiny_corpus import _OTHERS, _SOLUTIONS, make_corpus
from Daddy.codegen.training_report import COMPARED_STEPS, describe_evaluations
from Daddy.core.errors import ConfigError
from Daddy.grpo.grpo_settings import Completion
from Daddy.grpo.training_records import (
    begin_record,
    describe_changes,
    drop_lines_after,
    hold_training,
    read_errors,
    read_json_lines,
    read_record,
    record_unsafe,
)


@pytest.mark.parametrize(
    ("text", "ended", "found"),
    [
        ("    return xs\n", True, True),
        ("    return xs\n", False, False),
        ("    return xs\n\ndef other", False, True),
        ("    a = xs\n    \n", False, False),
    ],
)
def test_a_completion_ends_by_its_token_or_by_an_unindented_line(
    text: str, ended: bool, found: bool
) -> None:
    assert has_end(Completion(text, ended)) is found


def test_lines_after_the_checkpoint_go_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    paths = CodegenPaths(tmp_path)
    paths.metrics.write_text('{"step": 0}\n{"step": 1}\n{"step": 2}\n{"step"')
    drop_lines_after(1, [paths.metrics, paths.completions], paths.errors)
    assert [row["step"] for row in read_json_lines(paths.metrics)] == [0, 1]
    assert paths.completions.read_text() == ""


def test_best_and_worst_of_a_step_are_safe_to_print(tmp_path: Path) -> None:
    paths = CodegenPaths(tmp_path)
    grades = (0.5, None, 1.0, -1.0)
    common = {"step": 4, "task": "t", "reason": "r\x1b", "code": "    a\x1b[2J\n    b"}
    lines = [json.dumps({**common, "grade": grade}) for grade in grades]
    paths.completions.write_text("\n".join(lines))
    assert [*describe_step(paths, 0)] == [
        "step 4, best: t, reward 1.00, r?",
        "        a?[2J",
        "        b",
        "step 4, worst: t, reward -1.00, r?",
        "        a?[2J",
        "        b",
    ]


def test_the_link_leads_to_the_newest_run_and_replaces_no_folder(tmp_path: Path) -> None:
    link = tmp_path / "training_results"
    for run in (tmp_path / "first", tmp_path / "second"):
        run.mkdir()
        link_results(link, run)
        assert link.resolve() == run
    link.unlink()
    link.mkdir()
    with pytest.raises(ConfigError, match="is not a link"):
        link_results(link, tmp_path / "first")


def test_two_processes_cannot_write_one_training(tmp_path: Path) -> None:
    paths = CodegenPaths(tmp_path)
    paths.settings.touch()
    with hold_training(paths.lock), pytest.raises(ConfigError, match="another process"):
        hold_training(paths.lock).__enter__()


def test_a_record_is_begun_once_and_tells_that_a_run_was_unsafe(tmp_path: Path) -> None:
    path = tmp_path / "run" / "terminal.json"
    begin_record(path, {"seeds": [1], "unsafe": False})
    with pytest.raises(ConfigError, match="holds a run"):
        begin_record(path, {})
    record_unsafe(path)
    assert read_record(path) == {"seeds": [1], "unsafe": True}


def test_errors_after_the_checkpoint_go_in_either_unit(tmp_path: Path) -> None:
    errors = tmp_path / "seed-1" / "errors.log"
    errors.parent.mkdir()
    errors.write_text("step 1, a: died\nbatch 1, a: died\nstep 2, a: died\nbatch 2, a: died\nste")
    drop_lines_after(1, [], errors)
    assert read_errors(tmp_path) == "step 1, a: died\nbatch 1, a: died\n"


def test_the_gain_has_an_interval_over_trainings() -> None:
    trainings = [
        [{"step": n, "reward": high * n / 16, "fully_correct": 0.5} for n in range(16)]
        for high in (0.8, 1.0)
    ]
    first, second = describe_changes(
        trainings, ("reward", "fully_correct"), COMPARED_STEPS, "steps"
    )
    assert first.startswith("reward: 0.20 in the first 8 steps, 0.65 in the last; change +0.45 [")
    assert second == (
        "fully correct: 0.50 in the first 8 steps, 0.50 in the last; change +0.00 [+0.00, +0.00], "
        "95 % over 2 trainings"
    )


def evaluation(step: int, greedy: float | None, share: float, new: int) -> dict[str, float | None]:
    kinds = {"greedy_pass_rate": greedy, "fully_correct": share, "new_inputs": new}
    return {"step": step, "eval_samples": 64, **{f"eval_{k}/t": v for k, v in kinds.items()}}


@pytest.mark.parametrize(
    ("before", "after", "new", "greedy"),
    [
        (0.2, 1.0, 3, "the greedy completion passes 20%, then 100% of 3 new inputs"),
        (None, None, 0, "no test has a new input"),
    ],
)
def test_evaluations_stand_side_by_side(
    before: float | None, after: float | None, new: int, greedy: str
) -> None:
    rows = [
        evaluation(0, before, 0.125, new),
        {"step": 1, "reward": 0.0},
        evaluation(1, after, 0.5, new),
    ]
    _, line = describe_evaluations(rows)
    assert line == (
        f"  t: {greedy}; fully correct 12% [6%, 23%], then 50% [38%, 62%] of 64 samples"
    )


def right_piece(place: object) -> str:
    return place if isinstance(place, str) else place[1][0]  # type: ignore[index]


def test_the_first_pieces_make_a_right_solution_and_few_are_right() -> None:
    bodies = {name: "".join(map(right_piece, places)) for name, places in _SOLUTIONS.items()}
    names: dict[str, object] = {}
    for name, body in bodies.items():
        exec(f"def {name}(xs):\n{body}", names)
    assert names["sort_numbers"]([3, 1, 2, 1]) == [1, 1, 2, 3]  # type: ignore[operator]
    assert names["max_subarray_sum"]([-4, 2, 3, -1, 5, -9]) == 9  # type: ignore[operator]
    corpus = make_corpus({"sort_numbers": "prompt"}, random.Random(0), 2000)
    assert {prompt for prompt, _ in corpus} == {"prompt", "def max_subarray_sum(xs):\n"}
    assert 0.05 < sum(body in bodies.values() for _, body in corpus) / 2000 < 0.2
    assert _OTHERS.keys() == _SOLUTIONS.keys()
