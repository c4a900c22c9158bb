"""The fan-out on a real Slurm cluster, as job arrays and under Dask: the same bytes as here."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.components import absent, program
from tests.patience import PATIENCE_S
from tests.real.conftest import Cluster, until

ROOT = Path(__file__).resolve().parents[2]
SANDBOXES = 13
SLOW_TASK = """
import json, os, random, sys, time
draw = random.Random(os.environ["TASK_SEED"])
for episode in range(1, int(sys.argv[2]) + 1):
    print(json.dumps({"episode": episode, "reward": draw.random()}), flush=True)
    time.sleep(0.5)
"""


class Demo:
    """Runs the demo with one engine after another in a folder of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = {**env, "DASK_CONFIG": str(folder / "dask"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.task = folder / "task.py"
        self.task.write_text(SLOW_TASK)

    def argv(self, engine: str, *flags: str) -> list[str]:
        words = ["--engine", engine, "--run-dir", engine, "--task", str(self.task), "--no-live"]
        words += [
            "--sandboxes",
            str(SANDBOXES),
            "--episodes",
            "5",
            "--batch-size",
            "4",
            "--sbatch",
            "mem=2G",
        ]
        return [sys.executable, "-m", "Daddy.run_demo", *words, *flags]

    def start(self, engine: str, *flags: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.argv(engine, *flags),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def results(self, engine: str) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in (self.folder / engine / "results").glob("*")}

    def worker_of(self, engine: str, index: int) -> int:
        """The process that runs a sandbox: on the test cluster's nodes it is one of this host."""
        for path in (self.folder / engine).glob("events/*"):
            events = [json.loads(line) for line in path.read_text().splitlines()]
            if any(event["source"]["index"] == index for event in events):
                return int(events[0]["data"]["pid"])
        raise AssertionError(f"no worker runs sandbox {index}")

    def states(self, engine: str) -> list[tuple[int, str]]:
        """The index and state of each event about a sandbox."""
        lines = [
            line
            for path in sorted((self.folder / engine).glob("events/*"))
            for line in path.read_text().splitlines()
        ]
        events = [json.loads(line) for line in lines]
        return [(e["source"]["index"], e["data"].get("state", "")) for e in events]


@pytest.fixture
def demo(cluster: Cluster, tmp_path: Path) -> Demo:
    program("bwrap", "bubblewrap")
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("a sandbox has a /tmp of its own, which hides a checkout below /tmp")
    return Demo(tmp_path, cluster.env)


@pytest.fixture(scope="module")
def local_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    program("bwrap", "bubblewrap")
    demo = Demo(tmp_path_factory.mktemp("local"), os.environ)
    here = demo.start("local", "--workers", str(SANDBOXES))
    out, _ = here.communicate(timeout=PATIENCE_S)
    assert here.returncode == 0, out
    assert len(demo.results("local")) == SANDBOXES
    return demo.results("local")


@pytest.mark.parametrize("engine", ["slurm", "dask"])
def test_the_results_are_the_local_ones_though_a_worker_was_killed(
    demo: Demo, cluster: Cluster, local_results: dict[str, bytes], engine: str
) -> None:
    if engine == "dask" and find_spec("dask_jobqueue") is None:
        absent("the extra scale", "./scripts/install --dev")
    far = demo.start(engine)
    try:
        assert until(lambda: (1, "running") in demo.states(engine), 60)
        os.kill(demo.worker_of(engine, 1), signal.SIGKILL)
        out, _ = far.communicate(timeout=PATIENCE_S)
        assert far.returncode == 0, out
    finally:
        far.kill()
    assert demo.results(engine) == local_results
    states = demo.states(engine)
    twice = [index for index in range(1, SANDBOXES + 1) if states.count((index, "running")) > 1]
    assert twice, "no sandbox of the killed worker ran again"
    assert not any(state == "error" for _, state in states)
    assert until(lambda: not _alive(cluster))


@pytest.mark.parametrize(("engine", "number"), [("slurm", signal.SIGTERM), ("dask", signal.SIGINT)])
def test_a_stop_cancels_the_jobs(
    demo: Demo, cluster: Cluster, engine: str, number: signal.Signals
) -> None:
    if engine == "dask" and find_spec("dask_jobqueue") is None:
        absent("the extra scale", "./scripts/install --dev")
    demo.task.write_text(SLOW_TASK.replace("0.5", "600"))
    child = demo.start(engine)
    try:
        assert until(lambda: (1, "running") in demo.states(engine), 60)
        child.send_signal(number)
        out, _ = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == 130, out
    assert until(lambda: not _alive(cluster))


def _alive(cluster: Cluster) -> list[str]:
    living = ("PENDING", "RUNNING", "COMPLETING")
    return [job for job, state in cluster.states().items() if state.startswith(living)]
