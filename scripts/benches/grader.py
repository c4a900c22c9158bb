"""Measures the completions a second that the grader of written code grades.

Beside it, in the same round: commands of an idle pool that do nothing (``pass``), and the grader's
own command in a plain child process each, which confines nothing. All take ten at a time, and every
result is checked. `of_idle_pool` and `times_subprocess` are medians of the rounds' ratios.
"""

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from Daddy.codegen.extract import extract_code
from Daddy.codegen.grade_outcome import grade_outcome
from Daddy.codegen.grader import SANDBOX_POOL_SIZE, Grader, command_source
from Daddy.codegen.tasks import draw_tests, load_tasks
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, Outcome

FLAT = True
ROUNDS, COUNT, QUICK_ROUNDS, QUICK_COUNT = 7, 500, 2, 60
TASKS = load_tasks(Path(__file__).parents[1] / "examples" / "tasks.py")
TASK = TASKS["sort_numbers"]
COMPLETION = """\
    found = []
    for number in xs:
        place = 0
        while place < len(found) and found[place] < number:
            place += 1
        found.insert(place, number)
    return found
"""


def run(quick: bool) -> dict[str, object]:
    """Return the rates and their ratios."""
    rounds, count = (QUICK_ROUNDS, QUICK_COUNT) if quick else (ROUNDS, COUNT)
    rows = asyncio.run(_measure(rounds, count))
    return {
        "grader_per_s": round(median(row[0] for row in rows), 1),
        "idle_pool_per_s": round(median(row[1] for row in rows), 1),
        "subprocess_per_s": round(median(row[2] for row in rows), 1),
        "of_idle_pool": round(median(row[0] / row[1] for row in rows), 2),
        "times_subprocess": round(median(row[0] / row[2] for row in rows), 1),
        "rounds": rounds,
    }


async def _measure(rounds: int, count: int) -> list[tuple[float, float, float]]:
    """Return for each round the completions a second of the three."""
    size, rows = SANDBOX_POOL_SIZE, []
    async with SandboxPool(BubblewrapBackend(), size=size, warm=size) as pool:
        grader = Grader(pool, TASKS, 0, time_s=60.0)
        for step in range(rounds):
            began = time.monotonic()
            grades = await grader.grade([TASK.name] * count, [COMPLETION] * count, step)
            graded = time.monotonic()
            await asyncio.gather(*(pool.run(Command(python="pass")) for _ in range(count)))
            idle = time.monotonic()
            if {grade.reward for grade in grades} != {1.0}:
                raise ValueError(f"a right completion got {grades}")
            plain = await asyncio.to_thread(_measure_subprocess, count // 10, step)
            rows.append((count / (graded - began), count / (idle - graded), plain))
            print("  round {}: {:.0f}, {:.0f}, {:.0f}/s".format(step + 1, *rows[-1]), flush=True)
    return rows


def _measure_subprocess(count: int, step: int) -> float:
    tests = draw_tests(TASK, 0, step)
    source = extract_code(TASK.prompt, COMPLETION, TASK.func_name)
    python = command_source(TASK, source, (), tests, "n")
    argv = [sys.executable, "-I", "-S", "-c", f"import os; os.dup2(1, 3); exec({python!r})"]

    def grade(_: int) -> float | None:
        done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=60, check=True)
        outcome = Outcome("exited", 0, fd3_output=done.stdout)
        return grade_outcome(outcome, "n", [test.expected for test in tests]).reward

    began = time.monotonic()
    with ThreadPoolExecutor(SANDBOX_POOL_SIZE) as threads:
        if set(threads.map(grade, range(count))) != {1.0}:
            raise ValueError("a right completion failed in a child process")
    return count / (time.monotonic() - began)
