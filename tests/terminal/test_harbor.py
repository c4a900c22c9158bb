"""Harbor's own runner and verifier work in our sandboxes, and no agent can forge a reward there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.benches._terminal_forgeries import FORGERIES, HOOKS, SHIMS
from tests.components import absent
from tests.patience import PATIENCE_S
from tests.terminal.episodes import COUNT, TASKS, backend, copy_task

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "runs/harbor/bin/python"
ENVIRONMENT = "Daddy.terminal.harbor_adapter:BubblewrapEnvironment"
OFFLINE = {
    "HARBOR_TELEMETRY": "0",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONPATH": str(ROOT),
}


def harbor(*argv: str | Path, module: str = "harbor.cli.main") -> str:
    """Run Harbor's Python; return what it printed."""
    backend()
    if not PYTHON.exists():
        absent("Harbor", "./scripts/harbor_environment installs it")
    done = subprocess.run(
        [PYTHON, "-m", module, *argv],
        env={**os.environ, **OFFLINE},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def run(tasks: Path, jobs: Path, agent: str, *flags: str) -> dict[str, list[float | None]]:
    """Return the sum of each trial's rewards, by task; None for a trial without any."""
    harbor("run", "-p", tasks, "-a", agent, "-e", ENVIRONMENT, "-o", jobs, "-q", *flags)
    found: dict[str, list[float | None]] = {}
    for path in sorted(jobs.glob("*/*/result.json")):
        result = json.loads(path.read_text())
        rewards = (result["verifier_result"] or {}).get("rewards")
        reward = round(sum(rewards.values()), 6) if rewards is not None else None
        found.setdefault(result["task_name"].rpartition("/")[2], []).append(reward)
    return found


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_the_solution_earns_one_and_nobody_earns_nothing(
    agent: str, reward: float, tmp_path: Path
) -> None:
    image = ("--ek", "image=host")
    often = run(COUNT, tmp_path / "often", agent, "-k", "8", "-n", "4", *image)
    assert often == {"count_lines": [reward] * 8}
    every = run(TASKS, tmp_path / "every", agent, "-n", "8", *image)
    assert every == {path.name: [reward] for path in TASKS.iterdir()}


def test_a_task_of_harbors_template_is_built_and_graded(tmp_path: Path) -> None:
    harbor("init", "me/hello", "--task", "-o", tmp_path)
    task, answer = tmp_path / "hello", "/app/answer.txt"
    settings = (task / "task.toml").read_text()
    (task / "task.toml").write_text(settings.replace("artifacts = []", f'artifacts = ["{answer}"]'))
    (task / "solution/solve.sh").write_text(f"#!/bin/bash\necho 42 > {answer}\n")
    (task / "tests/test_outputs.py").write_text(
        f"def test_outputs():\n    assert open({answer!r}).read() == '42\\n'\n"
    )
    assert run(task, tmp_path / "oracle", "oracle", "-k", "2") == {"hello": [1.0] * 2}
    assert run(task, tmp_path / "nop", "nop", "-k", "2") == {"hello": [0.0] * 2}


def test_a_forged_reward_is_none(tmp_path: Path) -> None:
    """Each forgery is the solution of a task, graded apart, or where the agent worked."""
    separate = (COUNT / "task.toml").read_text()
    beside = separate.replace('environment_mode = "separate"', "")
    for number, lines in enumerate(FORGERIES.values()):
        solution = {"solution__solve.sh": "\n".join(["#!/bin/bash", "cd /app", *lines])}
        files = {"task.toml": separate, **solution}
        copy_task(COUNT, tmp_path / f"tasks/apart_{number}", **files)
        if lines not in (HOOKS, SHIMS):  # without artifacts the verifier has their programs
            files = {"task.toml": beside.replace('["/app"]', "[]"), **solution}
            copy_task(COUNT, tmp_path / f"tasks/beside_{number}", **files)
        files = {"task.toml": beside, **solution}
        copy_task(COUNT, tmp_path / f"tasks/artifacts_{number}", **files)
    rewards = run(tmp_path / "tasks", tmp_path / "jobs", "oracle", "-n", "4", "--ek", "image=host")
    assert len(rewards) == 3 * len(FORGERIES) - 2
    assert {name: found for name, found in rewards.items() if found != [0.0]} == {}


def test_its_environment_and_escapes_from_it() -> None:
    flags = ("--noconftest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ROOT)
    told = harbor(*flags, "tests/terminal/inside_harbor.py", module="pytest")
    assert "5 passed" in told
