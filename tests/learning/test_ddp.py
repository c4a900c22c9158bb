"""DDP over gloo, with two real processes on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from Daddy import train_slim
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, NetworkError
from Daddy.core.rank_address import RankAddress
from Daddy.core.run_paths import RunPaths
from Daddy.core.stop_conditions import WALL_TIME
from Daddy.learning import loop
from Daddy.learning.checkpoint import load_newest
from Daddy.learning.ddp import GlooGroup, Rendezvous
from Daddy.learning.rollout_buffer import Minibatch
from tests.learning.ddp_rank import STEPS, Batches, minibatch, updater
from tests.learning.helpers import FakeLease, StopAfter, cartpole_parts
from tests.patience import PATIENCE_S, until

CHECKOUT = Path(__file__).resolve().parents[2]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture
def ranks(tmp_path):
    started = []

    def start(mode, timeout_s, port):
        for rank in (0, 1):
            names = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port, "PYTHONPATH": CHECKOUT}
            line = [sys.executable, "-W", "ignore", "-m", "tests.learning.ddp_rank"]
            child = subprocess.Popen(
                [*line, str(tmp_path), mode, str(timeout_s)],
                env={**os.environ, **{name: str(value) for name, value in names.items()}},
                stderr=subprocess.PIPE,
                text=True,
            )
            started.append(child)
        return started

    yield start
    for child in started:
        child.kill()
        child.communicate()


def results(children, folder):
    for child in children:
        _, err = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0, err
    flats = [np.fromfile(folder / f"rank-{rank}.bin", np.float32) for rank in (0, 1)]
    assert flats[0].tobytes() == flats[1].tobytes()
    return flats[0]


def doubled(step):
    parts = [minibatch(rank, step) for rank in (0, 1)]
    joined = {f.name: [getattr(part, f.name) for part in parts] for f in fields(Minibatch)}
    seen = {"state": torch.cat([each["state"] for each in joined.pop("observations")], 1)}
    return Minibatch(seen, **{name: torch.cat(pair, 1) for name, pair in joined.items()})


def test_two_ranks_are_bit_equal_and_equal_to_one_with_the_doubled_batch(ranks, tmp_path):
    found = results(ranks("well", 300, free_port()), tmp_path)
    alone = updater(0)
    first = torch.cat([p.detach().flatten() for p in alone.policy.parameters()])
    for step in range(STEPS):
        alone.update(Batches([doubled(step)]), 1e-3)
    wanted = torch.cat([p.detach().flatten() for p in alone.policy.parameters()])
    assert (wanted - first).abs().max() > 1e-2, "the weights should have moved"
    assert np.abs(found[: len(wanted)] - wanted.numpy()).max() < 1e-5


def test_a_gradient_that_is_nan_on_one_rank_is_skipped_on_both(ranks, tmp_path):
    found = results(ranks("nan", 300, free_port()), tmp_path)
    assert found[-1] == 1.0
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("mode", "timeout_s"), [("killed", 300.0), ("hangs", 2.0)])
def test_a_lost_rank_ends_the_other_and_the_port_is_free_again(ranks, tmp_path, mode, timeout_s):
    port = free_port()
    first, second = ranks(mode, timeout_s, port)
    _, err = first.communicate(timeout=PATIENCE_S)
    (tmp_path / "end").touch()
    assert first.returncode == 8, err
    assert "rank 0 of 2 waited" in err
    assert f"limit {timeout_s:g} s" in err
    assert "start all ranks again" in err
    if mode == "killed":
        assert second.wait(PATIENCE_S) == -signal.SIGKILL
    socket.create_server(("127.0.0.1", port)).close()


def test_a_busy_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=f"rank 0 cannot listen on 127.0.0.1:{port}"):
            GlooGroup(RankAddress(0, 2, port=port))


def test_a_rank_that_comes_alone_gives_up_at_its_deadline():
    with pytest.raises(NetworkError, match=r"rank 1 of 2 waited .* to meet 2 ranks"):
        GlooGroup(RankAddress(1, 2, port=free_port()), timeout_s=1.0)


def test_ranks_without_a_port_meet_by_the_file_of_their_own_start(tmp_path):
    path, clock, said = tmp_path / "rendezvous.json", SystemClock(), []
    meetings = [Rendezvous(path, start, clock, said.append) for start in ("before", "now")]
    at = RankAddress(0, 2, port=0)
    with socket.create_server(("127.0.0.1", 0)) as before:
        meetings[0].publish(at, before)
    with pytest.raises(NetworkError, match=r"rank 1 of 2 waited 0.5 s for rank 0's address"):
        meetings[1].wait(replace(at, rank=1), 0.5)
    with ThreadPoolExecutor() as pool:
        ranks = [replace(at, rank=rank) for rank in (1, 0)]
        groups = list(pool.map(lambda each: GlooGroup(each, meeting=meetings[1]), ranks))
        tensors = [torch.tensor([float(each.rank)]) for each in groups]
        list(pool.map(lambda each: each[0].average(each[1]), zip(groups, tensors, strict=True)))
    assert tensors == [torch.tensor([0.5])] * 2


def test_two_learners_of_which_one_is_asked_to_stop_end_with_the_weights_of_one(tmp_path):
    """Train CartPole by the entry program, each rank in the slot of its number."""
    training = {"workload": "cartpole", "device": "cpu", "num_envs": 2, "total_steps": 10**9}
    config = {
        "run_dir": str(tmp_path / "run"),
        "training": {**training, "vector_backend": "serial"},
        "collaboration": {"enabled": False},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    line = [sys.executable, "-W", "ignore", "-m", "Daddy.train_slim", "--ddp", "--config"]
    names = {"WORLD_SIZE": "2", "MASTER_PORT": str(free_port()), "PYTHONPATH": str(CHECKOUT)}
    children = [
        subprocess.Popen(
            [*line, str(tmp_path / "config.json")],
            env={**os.environ, **names, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    run = RunPaths(tmp_path / "run")
    try:
        assert until(
            lambda: any("first_update" in log.read_text() for log in run.events.glob("*slot-1*"))
        )
        children[1].send_signal(signal.SIGTERM)
        for child in children:
            _, err = child.communicate(timeout=PATIENCE_S)
            assert child.returncode == ExitCode.DRAINED, err
    finally:
        for child in children:
            child.kill()
            child.wait()
    first, second = (load_newest(run.slot(rank).checkpoints).checkpoint.tensors for rank in (0, 1))
    learnt = [name for name in first if name.startswith(("policy.", "optimizer."))]
    assert learnt
    assert all(torch.equal(first[name], second[name]) for name in learnt)
    assert first["optimizer.mean"].any()
    assert not torch.equal(first["environment.0"], second["environment.0"])


class EndsAfter(StopAfter, FakeLease):
    """Is a lease that is lost, or a wall time that is up, after some updates."""

    def __init__(self, looks):
        StopAfter.__init__(self, looks)
        FakeLease.__init__(self)

    def held(self):
        return not super().stop_reason()

    def stop_reason(self):
        return WALL_TIME if super().stop_reason() else None


@pytest.mark.parametrize(
    ("part", "ends"),
    [
        ("lease", [("drained", "another rank ended"), ("fenced", loop._LEASE_LOST)]),
        ("stopper", [("drained", WALL_TIME)] * 2),
    ],
)
def test_a_rank_ends_with_a_checkpoint_when_another_ends(tmp_path, part, ends):
    port, folders = free_port(), [tmp_path / "0", tmp_path / "1"]

    def run(rank):
        group = GlooGroup(RankAddress(rank, 2, port=port))
        changes = {part: EndsAfter(3)} if rank else {}
        return loop.train(cartpole_parts(folders[rank], group=group, **changes))

    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(run, (0, 1)))
    assert [(each.kind, each.reason) for each in outcomes] == ends
    assert load_newest(folders[0]).checkpoint.step == outcomes[0].step == outcomes[1].step
    assert (load_newest(folders[1]) is None) == (part == "lease")


def test_ranks_that_would_share_weights_with_others_are_refused(tmp_path, monkeypatch, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"run_dir": str(tmp_path / "run")}))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert run_entry(train_slim.main, ["--ddp", "--config", str(config)]) == ExitCode.CONFIGURATION
    assert "collaboration.enabled is true" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
