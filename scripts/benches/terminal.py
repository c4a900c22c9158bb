"""Measures the episodes a second of a terminal task, and the forged rewards that are accepted.

An episode opens the task's sandbox, runs its solution and is graded; 24 run at once. Beside ours
stand Harbor with our sandboxes (it has no environment of its own that runs without an engine), and
a class in the form that TRL's ``environment_factory`` takes, whose tool starts a child process in a
folder and which grades there: that confines nothing. Each round runs all of them. The forgeries
run in sandboxes everywhere: TRL's and Harbor's in place are graded in the one where they ran.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from statistics import median

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.terminal.agents import play_oracle
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, TerminalAction
from scripts.benches._terminal_forgeries import FORGERIES

FLAT = True
ROUNDS, QUICK_ROUNDS, EPISODES = 3, 1, 24
ROOT = Path(__file__).parents[2]
TASK = ROOT / "scripts/examples/tinker_cookbook/recipes/terminal_rl/harbor_envs/count_lines"
HARBOR = ROOT / "runs/harbor/bin/python"
_RUN = ("-m", "harbor.cli.main", "run", "-q", "--ek", "image=host", "-a", "oracle")
_ENVIRONMENT = "Daddy.terminal.harbor_adapter:BubblewrapEnvironment"
_OFFLINE = {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
_ABSENT = "not installed: ./scripts/harbor_environment"
_TIME_S = 300.0


class SubprocessEnvironment:
    """The task as a class for TRL's ``environment_factory``: its public methods are tools."""

    def reset(self) -> str:
        """Begin an episode in a folder of its own."""
        self._folder = Path(tempfile.mkdtemp())
        shutil.copytree(TASK / "environment", self._folder / "app")
        (self._folder / "logs/verifier").mkdir(parents=True)
        return (TASK / "instruction.md").read_text()

    def shell(self, command: str) -> str:
        """Run a line of bash."""
        argv = ["bash", "-c", command.replace("/app", str(self._folder / "app"))]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def grade(self) -> float:
        """Return the reward, and remove the folder."""
        source = (TASK / "tests/grade.py").read_text()
        for name in ("/app", "/logs/verifier"):
            source = source.replace(f'"{name}/', f'"{self._folder}{name}/')
        argv = [sys.executable, "-I", "-c", source]
        subprocess.run(argv, timeout=60, check=True)
        found = json.loads((self._folder / "logs/verifier/reward.json").read_text())
        shutil.rmtree(self._folder)
        return float(sum(found.values()))


def run(quick: bool) -> dict[str, object]:
    """Return the rates, their ratios and the forged rewards that each accepts."""
    with tempfile.TemporaryDirectory(dir=ROOT / "runs") as folder:
        rows = [_round(Path(folder, str(n))) for n in range(QUICK_ROUNDS if quick else ROUNDS)]
        accepted = _forge(Path(folder, "forged"))
    rates = {name: median(row[name] for row in rows) for name in rows[0]}
    ratios = {name: median(row["ours"] / row[name] for row in rows) for name in rows[0]}
    return {
        "episodes_at_once": EPISODES,
        "per_s": {name: round(rate, 2) for name, rate in rates.items()},
        "times": {name: round(ratio, 2) for name, ratio in ratios.items() if name != "ours"},
        "forgeries": len(FORGERIES),
        "accepted": accepted,
        "rounds": len(rows),
    }


def _round(folder: Path) -> dict[str, float]:
    folder.mkdir()
    contenders: dict[str, Callable[[], float]] = {
        "ours": lambda: asyncio.run(_play_ours(folder)),
        "harbor": lambda: _time_harbor(folder / "jobs"),
        "trl": _play_subprocess,
    }
    found = {}
    for name, play in contenders.items():
        if name == "harbor" and not HARBOR.exists():
            print(f"  harbor: {_ABSENT}")
            continue
        found[name] = EPISODES / play()
        print(f"  {name:<8} {found[name]:6.2f}/s", flush=True)
    return found


def _sandboxes(folder: Path) -> TaskSandboxes:
    return TaskSandboxes(read_task(TASK), BubblewrapBackend(), folder / "layers", "host")


async def _play_ours(folder: Path, forged: str = "") -> float:
    """Return the seconds of all episodes, or the reward of one with forged lines."""
    sandboxes = _sandboxes(folder)
    await sandboxes.build()

    async def play() -> float:
        env = AsyncTerminalGymEnv(TASK, runs_dir=folder, sandboxes=sandboxes)
        try:
            obs, _ = await env.reset()
            if forged:
                await env.step(TerminalAction(f"{forged}\n", max_timeout_sec=_TIME_S, done=True))
            else:
                await play_oracle(env, obs)
            return await env.verify() or 0.0
        finally:
            await env.close()

    began = time.monotonic()
    rewards = await asyncio.gather(*(play() for _ in range(1 if forged else EPISODES)))
    if not forged and set(rewards) != {1.0}:
        raise ValueError(f"the solution earned {rewards}")
    return rewards[0] if forged else time.monotonic() - began


def _run_harbor(tasks: Path, jobs: Path, *flags: str) -> list[Path]:
    argv = [str(HARBOR), *_RUN, "-e", _ENVIRONMENT, "-p", str(tasks), "-o", str(jobs), *flags]
    env = {**os.environ, **_OFFLINE, "PYTHONPATH": str(ROOT)}
    with (jobs.parent / "harbor.log").open("wb") as log:
        subprocess.run(argv, env=env, stdout=log, stderr=log, timeout=2 * _TIME_S, check=True)
    return sorted(jobs.glob("*/*/result.json"))


def _time_harbor(jobs: Path) -> float:
    """Return the seconds between the start of the first trial and the end of the last."""
    trials = [
        json.loads(path.read_text())
        for path in _run_harbor(TASK, jobs, "-k", str(EPISODES), "-n", str(EPISODES))
    ]
    began = min(datetime.fromisoformat(trial["started_at"]) for trial in trials)
    ended = max(datetime.fromisoformat(trial["finished_at"]) for trial in trials)
    return (ended - began).total_seconds()


def _play_subprocess() -> float:
    line = (TASK / "solution/solve.sh").read_text()

    def play(_: int) -> float:
        environment = SubprocessEnvironment()
        environment.reset()
        environment.shell(line)
        return environment.grade()

    began = time.monotonic()
    with ThreadPoolExecutor(EPISODES) as threads:
        if set(threads.map(play, range(EPISODES))) != {1.0}:
            raise ValueError("the solution earned less than 1")
    return time.monotonic() - began


def _forge(folder: Path) -> dict[str, list[str]]:
    """Return the names of the forgeries that each contender gives a reward for."""
    scripts = {name: "\n".join(["cd /app", *lines]) for name, lines in FORGERIES.items()}
    found: dict[str, list[str]] = {"ours": [], "trl": []}
    for number, (name, lines) in enumerate(scripts.items()):
        runs = folder / f"ours-{number}"
        if asyncio.run(_play_ours(runs, lines)):
            found["ours"].append(name)
        if asyncio.run(_forge_in_place(runs, lines)):
            found["trl"].append(name)
    modes = {"harbor": "separate", "harbor in place": "shared"} if HARBOR.exists() else {}
    for contender, mode in modes.items():
        rewards = _forge_harbor(folder / mode, mode, list(scripts.values()))
        found[contender] = [name for name, got in zip(scripts, rewards, strict=True) if got]
    return found


def _forge_harbor(folder: Path, mode: str, scripts: list[str]) -> list[float]:
    for number, script in enumerate(scripts):
        task = shutil.copytree(TASK, folder / f"tasks/task_{number:02}")
        text = (task / "task.toml").read_text().replace('"separate"', f'"{mode}"')
        (task / "task.toml").write_text(text)
        (task / "solution/solve.sh").write_text(f"#!/bin/bash\n{script}\n")
    found = [
        json.loads(path.read_text())["verifier_result"]
        for path in _run_harbor(folder / "tasks", folder / "jobs")
    ]
    return [sum(verdict["rewards"].values()) if verdict else 0.0 for verdict in found]


async def _forge_in_place(folder: Path, script: str) -> float:
    """Return the reward that is there after the lines and the tests ran in one sandbox."""
    sandboxes = _sandboxes(folder)
    sandbox = await sandboxes.open()
    try:
        limits = sandboxes.limits(_TIME_S)
        await sandbox.run(sandboxes.command("bash", "-c", script), limits)
        await sandbox.put(TASK / "tests", "/tests")
        await sandbox.run(sandboxes.command("bash", "-c", "bash /tests/test.sh; sleep 1"), limits)
        read = "cat /logs/verifier/reward.txt || cat /logs/verifier/reward.json"
        told = await sandbox.run(sandboxes.command("/bin/sh", "-c", read), limits)
        found = json.loads(told.stdout or b"0")
        return float(sum(found.values()) if isinstance(found, dict) else found)
    finally:
        await sandbox.close()
