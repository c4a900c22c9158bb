"""Beside a learner: pairs of real CartPole episodes, within a share of its cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import torch

from Daddy.core.config import effective_json, load
from Daddy.core.shared_paths import SharedPaths
from Daddy.errands.examiner import LOOK_S, player, rest
from Daddy.weights.revert.evaluations import evaluations_of_jobs
from Daddy.weights.store.store import Store
from Daddy.workloads import WORKLOADS
from tests.weights.helpers import ToldClock, begin


def config_for(tmp_path):
    flags = {"training.workload": "cartpole", "run_dir": str(tmp_path / "run")}
    return load(None, {**flags, "collaboration.examine_share": 0.5})


def policy(config, seed):
    torch.manual_seed(seed)
    row = WORKLOADS["cartpole"]
    game = row.make_env(config)()
    return dict(row.make_policy(game.observation_space, game.action_space).state_dict())


def test_a_rest_keeps_the_share():
    assert rest(2.0, 3.0, 0.04, played=True) == 2.0 / 0.04 - 3.0
    assert rest(0.001, 0.001, 0.5, played=False) == LOOK_S
    assert rest(0.0, 50.0, 0.5, played=True) == 0.0


def test_the_same_weights_and_start_give_the_same_return(tmp_path):
    config = config_for(tmp_path)
    ours, theirs = player(config, 100)(policy(config, 1), policy(config, 1), 7)
    assert ours == theirs > 0


def test_it_plays_what_is_on_probation_and_ends_with_its_parent(tmp_path):
    config = config_for(tmp_path)
    shared = SharedPaths(tmp_path / "run" / "shared_weights")
    job = begin(shared.root, "slot-0", ToldClock(), own=policy(config, 1))
    for seed in (1, 2):
        job.learn(seed)
        job.publish()
        job.adopt()
    file = tmp_path / "examiner.json"
    file.write_bytes(effective_json(config))
    argv = [sys.executable, "-m", "Daddy.errands.examiner",
            "--config", str(file), "--peer", "slot-0",
            "--incarnation", job.incarnation, "--parent", str(os.getpid())]  # fmt: skip
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until = time.monotonic() + 120
    while not evaluations_of_jobs(Store(shared)) and time.monotonic() < until:
        time.sleep(0.2)
    child.kill()
    text = child.communicate()[0].decode()
    found = [one for _, one in evaluations_of_jobs(Store(shared))]
    assert found, text
    assert (found[0].peer, found[0].version, found[0].reference) == ("slot-0", 1, 0)
    assert found[0].pairs[0][1] > 0
