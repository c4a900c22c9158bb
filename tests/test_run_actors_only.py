"""`python -m Daddy.run_actors_only`, as a friend types it: real weights, games and signals."""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import read_events
from Daddy.core.host_and_processes import memory_bytes, usable_cores
from Daddy.core.load_config import load_config
from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.hardware.machine_profile import Profile, save_profile
from Daddy.hardware.recommend_envs import MachineFacts
from Daddy.run_actors_only import main
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.weight_exchange import SharedExchange
from Daddy.workloads import WORKLOADS
from tests.in_this_process import run_here
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]


class Silent:
    def write(self, *_: object) -> None:
        pass


class Job:
    """A learner of the run, as the laptop sees one: it commits versions of real weights."""

    def __init__(self, shared: Path, workload: str = "cartpole") -> None:
        config = load_config(None, {"training.workload": workload, "training.device": "cpu"})
        env = WORKLOADS[workload].make_env(config)()
        policy = WORKLOADS[workload].make_policy(
            config.training, env.observation_space, env.action_space
        )
        env.close()
        settings = ExchangeSettings(run="slim_run", workload=workload, period_s=0.01)
        facts = (SharedPaths(shared), "slot-0", new_incarnation(), settings)
        self._exchange = SharedExchange(*facts, SystemClock(), Silent())
        first = {name: tensor.detach().clone() for name, tensor in policy.state_dict().items()}
        adoption = self._exchange.join_fleet(lambda: first, None)
        self._weights, self.version, self._steps = adoption.weights, adoption.version, 0

    def commit(self) -> int:
        """One more version; returns its number."""
        self._steps += 1000
        moved = {name: old + 0.01 * torch.ones_like(old) for name, old in self._weights.items()}
        self._exchange.publish(moved, self._steps, self._steps // 100)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            adoption = self._exchange.adopt(moved)
            if adoption is not None:
                self._weights, self.version = adoption.weights, adoption.version
                return self.version
            time.sleep(0.02)
        raise AssertionError("no version was committed")


ME = ("--nice", "0", "--user-id", "anna", "--device", "cpu")


def environ_of(home: Path) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY_", "XDG_"))}
    return {**keep, "HOME": str(home), "PYTHONPATH": str(ROOT)}


class Laptop:
    """The command in a process group of its own, with its lines as they come."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "Daddy.run_actors_only", *ME, *arguments],
            cwd=home,
            env=environ_of(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._child.stdout or ():
            self._queue.put(line.rstrip())

    def hears(self, text: str) -> str:
        """The next line that holds `text`."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                self.lines.append(self._queue.get(timeout=0.2))
                if text in self.lines[-1]:
                    return self.lines[-1]
            if self._child.poll() is not None and self._queue.empty():
                break
        raise AssertionError(f"no line with {text!r}; lines: {self.lines}; {self._end()}")

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self._child.pid).children(recursive=True)

    def signal(self, number: int, *, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self._child.pid, number)

    def ends(self) -> tuple[int, str]:
        """Exit code and stderr; stdout is in `lines`."""
        code = self._child.wait(timeout=PATIENCE_S)
        self._reader.join(timeout=PATIENCE_S)
        while not self._queue.empty():
            self.lines.append(self._queue.get())
        return code, (self._child.stderr.read() if self._child.stderr else "")

    def _end(self) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        return self._child.stderr.read() if self._child.stderr else ""

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(timeout=PATIENCE_S)
        for stream in (self._child.stdout, self._child.stderr):
            if stream:
                stream.close()


@contextlib.contextmanager
def laptop(home: Path, *arguments: str) -> Iterator[Laptop]:
    running = Laptop(home, *arguments)
    try:
        yield running
    finally:
        running.close()


def once(home: Path, *arguments: str, **settings: str) -> tuple[int, str, str]:
    """Type the command in this process, where torch is loaded: no signal is sent to it."""
    named = {f"DADDY_TRAINING__{name.upper()}": value for name, value in settings.items()}
    return run_here(main, [*ME, *arguments], home, {**environ_of(home), **named})


def states(home: Path, name: str) -> list[dict[str, Any]]:
    events = read_events(home / "runs" / "laptop" / "events", "actor-anna-*.jsonl")
    return [e["data"] for e in events if e["event"] == "state" and e["data"]["state"] == name]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "shared_weights"


def test_a_laptop_waits_for_a_version_changes_to_newer_ones_and_passes_over_a_damaged_one(
    tmp_path: Path, shared: Path
) -> None:
    with laptop(tmp_path, "--num-envs", "2") as running:
        running.hears("waiting up to 120 s")
        job = Job(shared)
        assert "sha256" in running.hears("playing version 0")
        second = job.commit()
        running.hears(f"playing version {second}")
        before = keyframe(shared)
        hidden = tmp_path / "newer"
        (shared / "wan").rename(hidden)  # the pull is away while the run goes on
        (shared / "wan").mkdir()
        number = job.commit()
        blob = keyframe(shared)
        assert blob != before
        blob.chmod(0o644)
        whole = blob.read_bytes()
        blob.write_bytes(whole[:100])
        assert str(number) in running.hears("error:") or blob.name in running.lines[-1]
        running.signal(signal.SIGTERM)
        code, err = running.ends()
    assert code == 0, err
    assert running.lines[-1].startswith("ended (signal SIGTERM): ")
    assert f"2 versions, last {second}" in running.lines[-1]
    played = states(tmp_path, "playing")
    assert [event["version"] for event in played] == [0, second]
    assert all(len(event["sha"]) == 64 for event in played)


def keyframe(shared: Path) -> Path:
    return max((shared / "wan").glob("kf-*.st"))


def test_what_is_played_is_written_down_like_a_learners_play(tmp_path: Path, shared: Path) -> None:
    Job(shared)
    code, out, err = once(tmp_path, "--num-envs", "3", "--max-steps", "600")
    assert code == 0, err
    assert "600 steps, as asked" in out
    assert not (tmp_path / "runs" / "laptop" / "tensorboard").exists()
    events = list(read_events(tmp_path / "runs" / "laptop" / "events"))
    assert {e["source"]["kind"] for e in events} == {"actor"}
    assert {e["run"] for e in events} == {"slim_run"}
    assert any(e["data"].get("steps_per_second", 0) > 0 for e in events if e["event"] == "metric")
    assert any(e["data"]["returns"] for e in events if e["event"] == "result")


def test_ctrl_c_ends_the_game_and_every_process_with_one_line(tmp_path: Path, shared: Path) -> None:
    Job(shared, "pokemon_red")
    with laptop(tmp_path, "--num-envs", "2", "--cartridge", "--nice", "10") as running:
        running.hears("playing version 0")
        deadline = time.monotonic() + PATIENCE_S
        while not states(tmp_path, "adopted") and time.monotonic() < deadline:
            time.sleep(0.1)
        family = running.children()
        assert {process.nice() for process in family} == {10}, (
            "env processes give way to the person"
        )
        running.signal(signal.SIGINT, group=True)
        code, err = running.ends()
    assert code == 0, err
    assert "Traceback" not in err
    assert running.lines[-1].startswith("ended (signal SIGINT): ")
    gone, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == [], gone


def test_without_a_version_it_says_how_to_pull_and_ends_in_time(
    tmp_path: Path, shared: Path
) -> None:
    code, out, err = once(tmp_path, "--wait-seconds", "0.6")
    assert code == 6
    assert f"no version in {shared} yet: waiting up to 0.6 s" in out
    assert "sync_weights.sh pull" in out
    assert "what to do:" in err
    assert "Traceback" not in err


def test_waiting_ends_on_a_signal_too(tmp_path: Path) -> None:
    with laptop(tmp_path) as running:
        running.hears("waiting")
        running.signal(signal.SIGINT)
        assert running.ends()[0] == 0
    assert running.lines[-1].startswith("ended (signal SIGINT)")


def test_a_truncated_version_is_refused_and_left_alone(tmp_path: Path, shared: Path) -> None:
    Job(shared)
    blob = keyframe(shared)
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-7])
    left = {path: path.stat().st_size for path in shared.rglob("*") if path.is_file()}
    code, _, err = once(tmp_path, "--num-envs", "1")
    assert code == 6
    assert blob.name in err
    assert "what to do:" in err
    assert left == {path: path.stat().st_size for path in shared.rglob("*") if path.is_file()}


def test_what_a_laptop_learnt_is_handed_in_also_when_it_leaves_and_the_answer_is_shown(
    tmp_path: Path, shared: Path
) -> None:
    job = Job(shared)
    with laptop(tmp_path, "--num-envs", "2", "--contribute") as running:
        running.hears("contribution 1 on v")  # the next is due in a minute
        box, inbox = shared / "outbox" / "anna", shared / "inbox" / "anna"
        inbox.mkdir(parents=True)
        (first,) = (json.loads(path.read_bytes()) for path in box.glob("*.json"))
        for path in sorted(box.iterdir(), key=lambda path: path.suffix != ".st"):
            path.rename(inbox / path.name)  # what push does: the .st first, the .json last
        job.commit()
        line = running.hears("contribution 1 was accepted into version")
        for _ in range(2):
            running.hears("steps/s")  # it has learnt more
        running.signal(signal.SIGTERM)
        code, err = running.ends()
    assert code == 0, err
    assert "share" in line
    assert "accepted 1, refused 0" in running.lines[-1]
    (receipt,) = states(tmp_path, "receipt")
    assert receipt["accepted"] is True
    last = [json.loads(path.read_bytes()) for path in box.glob("*.json")]
    assert len(last) > 0
    played = int(re.findall(r"([\d,]+) steps in", running.lines[-1])[0].replace(",", ""))
    learnt = sum(offer["new_steps"] for offer in [first, *last])
    assert learnt > played - 2 * 2 * 64  # two rollouts


def test_a_laptop_whose_policy_collapsed_hands_nothing_in_and_ends_with_exit_code_93(
    tmp_path: Path, shared: Path
) -> None:
    Job(shared)
    flags = ("--num-envs", "4", "--contribute", "--no-push")
    code, said, err = once(tmp_path, *flags, learning_rate="1", horizon="64")
    assert code == 93, err
    assert "error: contributions and checkpoints are held: entropy " in said  # 0, or nearly
    assert "took v0: the policy had collapsed" in said
    assert said.splitlines()[-1].startswith("ended (the policy collapsed: ")
    assert not list((shared / "outbox").rglob("*.json"))


def test_the_play_can_be_watched_on_the_same_machine(tmp_path: Path, shared: Path) -> None:
    Job(shared, "pokemon_red")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    flags = ("--num-envs", "2", "--cartridge", "--stream", "--stream-port", port)
    with viewer(tmp_path, port) as lines, laptop(tmp_path, *flags) as running:
        running.hears("playing version 0")
        shown = next(line for line in lines if "anna" in line)
        family = running.children()
        running.signal(signal.SIGTERM)
        code, err = running.ends()
    assert code == 0, err
    assert shown
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []


@contextlib.contextmanager
def viewer(home: Path, port: str) -> Iterator[Iterator[str]]:
    """The real viewer without a window; its lines. Ends by itself after a minute."""
    argv = ["-m", "Daddy.streaming.tunnel_server", "--port", port, "--headless", "--seconds", "60"]
    child = subprocess.Popen(
        [sys.executable, *argv],
        cwd=home,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield iter(child.stdout.readline, "")
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)


def test_auto_takes_the_measured_profile_of_its_user(tmp_path: Path, shared: Path) -> None:
    Job(shared)
    facts = MachineFacts(usable_cores(), memory_bytes()[0])
    profile = Profile("anna", facts, "cartpole", 0.0, (), 3, ("3 was the fastest",))
    save_profile(tmp_path / ".config" / "daddy" / "profiles", profile)
    code, out, err = once(tmp_path, "--num-envs", "auto", "--max-steps", "100")
    assert code == 0, err
    assert "3 environments: 3 was the fastest (measured profile of anna)" in out


def test_a_profile_of_another_machine_is_not_used(tmp_path: Path, shared: Path) -> None:
    Job(shared)
    facts = MachineFacts(usable_cores() + 1, memory_bytes()[0])
    profile = Profile("anna", facts, "cartpole", 0.0, (), 33, ("33",))
    save_profile(tmp_path / ".config" / "daddy" / "profiles", replace(profile, envs=33))
    code, out, err = once(tmp_path, "--max-steps", "100")
    assert code == 0, err
    assert "one of them left to you" in out
    assert "Daddy.autotune --user-id anna" in out


def test_autotune_measures_first_and_remembers(tmp_path: Path, shared: Path) -> None:
    Job(shared)
    code, out, err = once(tmp_path, "--num-envs", "auto", "--autotune", "--max-steps", "100")
    assert code == 0, err
    assert "steps/s" in out
    assert "(measured profile of anna)" in out
    assert (tmp_path / ".config" / "daddy" / "profiles" / "anna.json").exists()


@pytest.mark.parametrize("count", ["0", "-1", "many", "1.5", "4097"])
def test_an_impossible_number_of_environments_is_one_clear_message(
    tmp_path: Path, count: str
) -> None:
    code, out, err = once(tmp_path, f"--num-envs={count}")
    assert (code, out) == (2, "")
    assert f"--num-envs {count}" in err
    assert "from 1 to 4,096, or auto" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--rom", "nowhere.gb"], 7, "nowhere.gb"),
        (["--run-dir", "/dev/null/run"], 9, "/dev/null"),
        (["--user-id", "!"], 2, "cannot name a peer"),
    ],
)
def test_what_cannot_be_done_is_said_once_with_its_exit_code(
    tmp_path: Path, shared: Path, arguments: list[str], code: int, said: str
) -> None:
    Job(shared, "pokemon_red")
    found, _, err = once(tmp_path, "--num-envs", "1", *arguments)
    assert found == code, err
    assert said in err
    assert "Traceback" not in err
