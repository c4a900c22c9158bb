"""Pure. Describes the steps and the evaluations of trainings in lines for a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from Daddy.core.confidence_intervals import share_interval
from Daddy.grpo.grpo_settings import Rows

COMPARED_STEPS = 8
"""Steps at either end of a training that its gain compares."""
GREEDY, NEW, HITS = "eval_greedy_pass_rate/", "eval_new_inputs/", "eval_fully_correct/"
"""Beginnings of an evaluation's metrics; the task's name follows. The greedy completion's pass rate
is that on new inputs, which no step of the training has: None if there are 0."""
COUNT = "eval_samples"
"""Completions of each task in an evaluation, beside the greedy one."""


def describe_step_metrics(row: Mapping[str, Any], steps: int) -> str:
    """Return the line of a step."""
    dropped = f", not graded {row['not_graded']:.0f}" if row["not_graded"] else ""
    return (
        f"step {row['step']:>{len(str(steps))}}/{steps}: reward {row['reward']:5.2f}, "
        f"fully correct {row['fully_correct']:4.0%}{dropped}, {row['step_time']:.1f} s, sandboxes "
        f"{row['sandbox_share']:.0%}"
    )


def describe_evaluations(rows: Rows) -> Iterator[str]:
    """Give a line per task: before and after the training."""
    before, after = (row for row in rows if "reward" not in row)
    yield "before and after the training:"
    for key in (key for key in before if key.startswith(GREEDY)):
        task = key.removeprefix(GREEDY)
        shares = [_percent(row[HITS + task], row[COUNT]) for row in (before, after)]
        greedy = "no test has a new input"
        if new := after[NEW + task]:
            passed = f"{before[key]:.0%}, then {after[key]:.0%}"
            greedy = f"the greedy completion passes {passed} of {new} new inputs"
        yield (
            f"  {task}: {greedy}; fully correct {shares[0]}, then {shares[1]} of {after[COUNT]} "
            "samples"
        )


def _percent(share: float, count: int) -> str:
    interval = share_interval(round(share * count), count)
    return f"{share:.0%} [{interval.low:.0%}, {interval.high:.0%}]"
