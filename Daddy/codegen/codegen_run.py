"""The files of a training, and the reward that writes each graded completion into them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.codegen.grade_outcome import REFUSED, Grade
from Daddy.codegen.grader import Grader
from Daddy.core.atomic_files import append_line
from Daddy.core.errors import ConfigError
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_token
from Daddy.core.shared_weights_paths import PathBelow
from Daddy.grpo.grpo_settings import Completion
from Daddy.grpo.training_records import read_json_lines


@dataclass(frozen=True, slots=True)
class CodegenPaths:
    """The folder of a training; the trained model lies in it, too."""

    root: Path

    settings = PathBelow("codegen.json")
    lock = PathBelow("train.lock")
    metrics = PathBelow("metrics.jsonl")
    completions = PathBelow("completions.jsonl")
    errors = PathBelow("errors.log")
    plot = PathBelow("rewards-plot.png")


class RecordedRewards:
    """Grades completions for a learner, and records those of a training."""

    def __init__(self, grader: Grader, paths: CodegenPaths) -> None:
        self._grader, self._paths = grader, paths

    async def __call__(
        self, names: Sequence[str], completions: Sequence[Completion], step: int
    ) -> list[float | None]:
        grades = await self.grade(names, completions, step)
        rows = zip(names, completions, grades, strict=True)
        lines = [json.dumps(_record(step, *row)) for row in rows]
        append_line(self._paths.completions, "\n".join(lines))
        self.record_failures(step, names, grades)
        return [grade.reward for grade in grades]

    def record_failures(self, step: int, names: Sequence[str], grades: Sequence[Grade]) -> None:
        """Write completions that could not be graded into the errors."""
        for name, grade in zip(names, grades, strict=True):
            if grade.reward is None:
                append_line(self._paths.errors, f"step {step}, {name}: {grade.reason}")

    async def grade(
        self, names: Sequence[str], completions: Sequence[Completion], step: int
    ) -> list[Grade]:
        """Return a grade for each completion; one without an end is refused.

        Else the model learns to write on and on.
        """
        whole = [index for index, each in enumerate(completions) if has_end(each)]
        graded = await self._grader.grade(
            [names[index] for index in whole], [completions[index].text for index in whole], step
        )
        found = dict(zip(whole, graded, strict=True))
        endless = Grade(REFUSED, "no end within the length limit")
        return [found.get(index, endless) for index in range(len(completions))]


def has_end(completion: Completion) -> bool:
    """Tell that the model ended, or went on after the function: a line is not indented."""
    return completion.ended or any(line[:1].strip() for line in completion.text.split("\n")[1:])


def _record(step: int, name: str, completion: Completion, grade: Grade) -> dict[str, Any]:
    return {
        "step": step,
        "task": name,
        "code": completion.text,
        "grade": grade.reward,
        "reason": grade.reason,
        "tests": grade.tests,
        "seconds": round(grade.seconds, 4),
        "mb": grade.peak_mb,
    }


def describe_step(paths: CodegenPaths, step: int) -> Iterator[str]:
    """Give the best and the worst completion of a step (0: the last one), safe to print.

    A run with several seeds shows the one that was trained last.

    Raises ConfigError.
    """
    of_seeds = sorted(paths.root.glob("seed-*/completions.jsonl"), key=lambda p: p.stat().st_mtime)
    rows = read_json_lines(paths.completions if not of_seeds else of_seeds[-1])
    step = step or max((row["step"] for row in rows), default=0)
    graded = [row for row in rows if row["step"] == step and row["grade"] is not None]
    if not rows:
        raise ConfigError(f"there is no run at {paths.root}", "name its folder: --run-dir")
    if not graded:
        raise ConfigError(f"{paths.completions} has no step {step}", "name another: --show STEP")
    graded.sort(key=lambda row: float(row["grade"]))
    for word, row in (("best", graded[-1]), ("worst", graded[0])):
        why = f"{row['task']}, reward {row['grade']:.2f}, {row['reason']}"
        yield f"step {step}, {word}: {printable_line(why)}"
        yield from (f"    {printable_line(line)}" for line in row["code"].split("\n"))


def require_link(link: Path) -> None:
    """Raise ConfigError if there is something else than a link."""
    if link.exists() and not link.is_symlink():
        raise ConfigError(f"{link} is not a link to a run", "move it away, then repeat this")


def link_results(link: Path, root: Path) -> None:
    """Let `link` lead to a run's folder. Raises ConfigError if it is another folder."""
    if link.absolute() == root:
        return
    require_link(link)
    temp = link.with_name(f".tmp-{new_token()}")
    temp.symlink_to(root)
    temp.replace(link)
