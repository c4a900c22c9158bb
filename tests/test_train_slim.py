import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from Daddy import train_slim
from Daddy.cluster.release_build import freeze_release
from Daddy.core.event_log import read_events
from Daddy.core.lease import end_term, read_lease
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import add_events
from Daddy.learning.checkpoint import list_manifests, load_newest
from Daddy.learning.interfaces import NoFrames
from Daddy.streaming import tunnel_client
from tests.in_this_process import run_here
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[1]


class Desk:
    """A run directory with a config, and learners started on it like a person would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunPaths(folder / "run")
        self.config = folder / "config.json"
        self.started: list[subprocess.Popen[str]] = []
        self.configure()

    def configure(self, **changes):
        training = {
            "workload": "cartpole",
            "device": "cpu",
            "num_envs": 4,
            "horizon": 64,
            "total_steps": 0,
            "vector_backend": "serial",
            "checkpoint_interval": 256,
        }
        training.update(changes)
        self.config.write_text(
            json.dumps(
                {
                    "run_dir": str(self.run.root),
                    "training": training,
                    "slurm": {"time_limit": "0:00:01"},
                    "collaboration": {"enabled": False},
                }
            )
        )

    def environ(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        return {**kept, "PYTHONPATH": str(CHECKOUT)}

    def typed(self, *flags: str) -> list[str]:
        return ["--config", str(self.config), *flags]

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "Daddy.train_slim", *self.typed(*flags)],
            cwd=self.folder,
            env=self.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(child)
        return child

    def learn(self, *flags: str):
        """Run a learner to its end in this process, where torch is loaded: nothing kills it."""
        return run_here(train_slim.main, self.typed(*flags), self.folder, self.environ())

    def end(self, child: "subprocess.Popen[str]", number: int | None = None):
        """Wait for the end of a started learner, which a signal may ask for."""
        if number is not None:
            child.send_signal(number)
        out, err = child.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def newest(self, slot: int = 0):
        return load_newest(self.run.slot(slot).checkpoints).checkpoint

    def wait_for_checkpoint(self, slot: int = 0, at_least: int = 1) -> None:
        folder = self.run.slot(slot).checkpoints
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = list_manifests(folder)
            if found and int(found[0].stem.split("-s")[1]) >= at_least:
                return
            time.sleep(0.05)
        raise AssertionError("no checkpoint came")

    def fleet(self):
        return add_events(read_events(self.run.events))

    def close(self):
        for child in self.started:
            if child.poll() is None:
                child.kill()
            child.communicate()


@pytest.fixture
def desk(tmp_path):
    found = Desk(tmp_path)
    yield found
    found.close()


def same(first, other):
    names = sorted(first.tensors)
    assert names == sorted(other.tensors)
    return [name for name in names if not torch.equal(first.tensors[name], other.tensors[name])]


@pytest.mark.parametrize(
    ("workload", "steps"), [("cartpole", 2048), ("pokemon_red", 512)], ids=["cartpole", "cartridge"]
)
def test_a_new_process_goes_on_bit_for_bit(tmp_path, workload, steps):
    """All of it: weights, optimizer, generators, counters, environments."""
    for name in "ab":
        (tmp_path / name).mkdir()
    straight, halves = Desk(tmp_path / "a"), Desk(tmp_path / "b")
    for desk in (straight, halves):
        desk.configure(workload=workload, episode_steps=100)
    whole = straight.learn("--total-steps", str(steps))
    assert whole.returncode == 0, whole.stderr
    half = halves.learn("--total-steps", str(steps // 2))
    assert half.returncode == 0, half.stderr
    rest = halves.end(halves.start("--total-steps", str(steps)))
    assert rest.returncode == 0, rest.stderr
    assert rest.stderr == "", "nothing that a person could do anything about"
    assert halves.newest().step == straight.newest().step >= steps
    assert same(straight.newest(), halves.newest()) == []
    assert halves.newest().facts == straight.newest().facts


def test_at_its_wall_time_it_drains_with_exit_code_10_and_its_successor_goes_on(desk):
    first = desk.learn("--max-runtime-seconds", "4", "--attempt", "aaaaaaaaaaaa")
    assert first.returncode == 10, first.stderr
    reached = desk.newest().step
    second = desk.learn("--total-steps", str(reached + 256), "--attempt", "bbbbbbbbbbbb")
    assert second.returncode == 0, second.stderr
    fleet = desk.fleet()
    assert fleet.attempts["aaaaaaaaaaaa"].facts_of("goodbye")["reason"] == "wall time"
    assert fleet.attempts["bbbbbbbbbbbb"].facts_of("resumed")["checkpoint_step"] == reached
    assert [handover.slot for handover in fleet.handovers()] == [0]


def test_after_kill_9_and_signals_the_next_one_resumes_and_checkpoints_never_go_backwards(desk):
    """The learners of one slot: killed, then drained by Slurm's warning, then by SIGTERM."""
    killed = desk.start("--attempt", "aaaaaaaaaaaa")
    desk.wait_for_checkpoint(at_least=1024)
    desk.end(killed, signal.SIGKILL)
    resumed = [desk.newest().step]
    for token, name in (("bbbbbbbbbbbb", "SIGUSR1"), ("cccccccccccc", "SIGTERM")):
        child = desk.start("--attempt", token)
        desk.wait_for_checkpoint(at_least=resumed[-1] + 1)
        ended = desk.end(child, signal.Signals[name])
        assert ended.returncode == 10, ended.stderr
        attempt = desk.fleet().attempts[token]
        assert (attempt.slot, attempt.facts_of("goodbye")["exit_code"]) == (0, 10)
        assert attempt.facts_of("goodbye")["reason"] == f"signal {name}"
        assert attempt.facts_of("resumed")["checkpoint_step"] == resumed[-1]
        assert desk.newest().step == attempt.events["checkpointed"]["step"]
        assert read_lease(desk.run.slot(0).lease).ended == f"signal {name}"
        resumed.append(desk.newest().step)
    steps = [
        (event["data"]["state"], event["step"])
        for event in sorted(read_events(desk.run.events), key=lambda event: event["ts"])
        if event["event"] == "state" and event["data"]["state"] == "checkpointed"
    ]
    assert steps == sorted(steps)


def test_a_slot_has_one_learner_and_one_that_was_suspended_and_replaced_wakes_up_powerless(desk):
    """Neither a checkpoint nor a contribution of its term comes after its successor's claim.

    Before that, while it runs, another one is not needed and leaves, without loading torch.
    """
    first = desk.start("--attempt", "aaaaaaaaaaaa")
    desk.wait_for_checkpoint()
    needless = desk.end(desk.start("--job-rank", "0"))
    assert needless.returncode == 11
    assert "held by a running learner" in needless.stderr
    first.send_signal(signal.SIGSTOP)
    end_term(desk.run.slot(0).lease, 1, "no beat for 300 s")
    second = desk.start("--attempt", "bbbbbbbbbbbb")
    desk.wait_for_checkpoint(at_least=desk.newest().step + 1)
    theirs = {
        path.name for path in list_manifests(desk.run.slot(0).checkpoints) if "t000001" in str(path)
    }
    first.send_signal(signal.SIGTERM)  # it would drain, and write its last checkpoint
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 11, err
    goodbye = desk.fleet().attempts["aaaaaaaaaaaa"].facts_of("goodbye")
    reason = goodbye["reason"]  # whichever door it comes to first
    assert "given to another process" in reason or "a checkpoint of term 1 is refused" in reason
    assert checkpoints_of_term(desk, 1) <= theirs
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 10
    assert read_lease(desk.run.slot(0).lease).term == 2


def checkpoints_of_term(desk, term):
    found = list_manifests(desk.run.slot(0).checkpoints)
    return {path.name for path in found if path.name.startswith(f"t{term:06d}-")}


def test_a_learner_behind_its_launcher_tells_how_long_it_took_phase_by_phase(desk):
    """One process from the job script to the drain: pid, lease and signals stay the job's."""
    release = freeze_release(desk.run, load_config(desk.config))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    argv = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(desk.run.root)]
    job = subprocess.Popen(
        [*argv, "--config", str(release.config), "--attempt", "aaaaaaaaaaaa"],
        cwd=desk.folder,
        env={**environment, "PYTHONPATH": str(release.path), "TMPDIR": str(desk.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    desk.started.append(job)
    desk.wait_for_checkpoint()
    assert read_lease(desk.run.slot(0).lease).holder["pid"] == job.pid
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 10, err
    attempt = desk.fleet().attempts["aaaaaaaaaaaa"]
    boot = attempt.facts_of("first_update")
    assert set(boot["phases"]) == set(PHASES)
    assert boot["boot_s"] == pytest.approx(sum(boot["phases"].values()), abs=0.05)
    assert 0.0 < boot["boot_s"] < PATIENCE_S
    assert boot["boot_s"] >= attempt.time_of("first_update") - attempt.time_of("started")


PHASES = (
    *("script", "slot", "release", "interpreter", "libraries", "environments"),
    *("weights", "rollout", "update"),
)


def test_a_truncated_checkpoint_costs_one_interval_and_is_told(desk):
    assert desk.learn("--total-steps", "1024").returncode == 0
    newest = list_manifests(desk.run.slot(0).checkpoints)[0].with_suffix(".safetensors")
    newest.write_bytes(newest.read_bytes()[:100])
    again = desk.learn("--total-steps", "1024")
    assert again.returncode == 0, again.stderr
    assert "truncated" in again.stdout
    assert desk.newest().step == 1024


def test_when_every_checkpoint_is_broken_it_says_so_with_exit_code_9(desk):
    assert desk.learn("--total-steps", "1024").returncode == 0
    for manifest in list_manifests(desk.run.slot(0).checkpoints):
        manifest.write_text("{")
    broken = desk.learn("--total-steps", "2048")
    assert broken.returncode == 9
    assert "Traceback" not in broken.stderr
    assert "what to do" in broken.stderr
    assert read_lease(desk.run.slot(0).lease).ended is not None


def test_the_seeds_flags_are_understood(desk):
    done = desk.learn(
        *("--resume", "--job-rank", "3", "--device", "cpu", "--num-envs", "2"),
        *("--total-steps", "256", "--batch-size", "32", "--no-stream", "--stream-port", "9999"),
        *("--seed", "5", "--checkpoint-interval", "128", "--workload", "cartpole"),
        *("--run-dir", "elsewhere", "--shared-dir", "shared"),
    )
    assert done.returncode == 0, done.stderr
    assert list_manifests(desk.folder / "elsewhere" / "slots" / "3" / "checkpoints")


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (["--num-envs", "0"], 3, "num_envs"),
        (["--batch-size", "1"], 3, "batch_size 1 gives minibatches of a single step"),
        (["--device", "cuda"], 3, "training.device is 'cuda'"),
        (["--workload", "pokemon_red", "--rom", "missing.gb"], 7, "missing.gb"),
        (["--config", "missing.json"], 3, "missing.json"),
        (["--num-envs", "many"], 2, "invalid int"),
        (["--job-rank", "-1"], 2, "--job-rank"),
    ],
)
def test_bad_input_gives_one_clear_message_and_its_exit_code(desk, flags, code, says):
    if torch.cuda.is_available() and "cuda" in flags:
        pytest.fail("this test needs a machine without a GPU")
    found = desk.learn(*flags)
    assert found.returncode == code, found.stderr
    assert says in found.stderr
    assert "Traceback" not in found.stderr


def test_a_policy_that_collapses_twice_ends_with_exit_code_93_and_the_numbers(desk):
    desk.configure(learning_rate=1.0)
    ended = desk.learn()
    assert ended.returncode == 93, ended.stderr
    assert re.search(
        r"the policy collapsed: entropy 0 \(at least 0\.00\d+\).*; took the first weights",
        ended.stdout,
    )
    last = ended.stdout.splitlines()[-1]
    assert re.match(
        r"ended \(the policy collapsed: .*; lower training.learning_rate, then start\)", last
    )
    assert desk.newest().facts["optimizer_steps"] == 0, "only the restarted policy is stored"
    assert read_lease(desk.run.slot(0).lease).ended.startswith(
        "exit code 93: the policy collapsed: "
    )


def test_a_run_directory_that_cannot_be_made_is_told_with_exit_code_9(desk):
    desk.run.root.write_text("in the way")
    found = desk.learn()
    assert found.returncode == 9, found.stderr
    assert str(desk.run.root) in found.stderr
    assert "Traceback" not in found.stderr


def test_a_mistyped_key_names_the_nearest_valid_one(desk):
    desk.configure(num_envz=4)
    found = desk.learn()
    assert found.returncode == 3
    assert "training.num_envs" in found.stderr


def test_tensorboard_gets_a_folder_per_slot(desk):
    assert desk.learn("--total-steps", "512").returncode == 0
    (path,) = (desk.run.tensorboard / "slot-0").iterdir()
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    tags = {
        value.tag for event in EventFileLoader(str(path)).Load() for value in event.summary.value
    }
    assert {"entropy", "steps_per_second"} <= tags


def test_a_stream_that_cannot_be_set_up_does_not_end_training(
    tmp_path: Path, monkeypatch, caplog
) -> None:
    def full() -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tunnel_client, "nameless_file", full)
    training = SimpleNamespace(stream=True, stream_direct=True)
    attempt = SimpleNamespace(
        config=SimpleNamespace(training=training), run=RunPaths(tmp_path), job_id="17", clock=None
    )
    assert isinstance(train_slim._frames(attempt, "slot-0"), NoFrames)
    assert "the stream is off: [Errno 28] No space left" in caplog.text
