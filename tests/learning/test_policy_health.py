"""A collapsed policy is found, held back, restarted once, then given up: bounds, loop, fleet."""

import json
import threading
from dataclasses import replace
from math import inf, log, nan

import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.core.load_config import load_config
from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning import policy_health
from Daddy.learning.checkpoint import list_manifests, load_checkpoint
from Daddy.learning.interfaces import NoFrames
from Daddy.learning.learner_parts import Surroundings, assemble
from Daddy.learning.loop import start_learner, train
from Daddy.learning.policy_health import (
    PolicyHealth,
    UpdateFigures,
    find_out_of_bounds,
    next_action,
)
from Daddy.learning.vector_serial import SerialVector
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.weights.exchange_settings import from_config
from Daddy.weights.weight_exchange import SharedExchange
from Daddy.workloads import WORKLOADS
from tests.learning.helpers import (
    SCHEDULE,
    SETTINGS,
    FakeLease,
    Notebook,
    StopAfter,
    cartpole_parts,
)

SOUND = UpdateFigures(value_loss=0.02, entropy=1.8, kl=0.01)
DEADLY = replace(SETTINGS, learning_rate=10.0)
LIMIT_S = 300.0
"""Longest wait for an event of another learner, on a machine that is eight times overloaded."""


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"entropy": 0.15, "kl": 0.234, "value_loss": 6.2}, []),  # worst of 4,500 good updates
        ({"entropy": 0.0019}, ["entropy"]),
        ({"entropy": 0.0020}, []),
        ({"kl": log(7) + 0.01}, ["KL"]),
        ({"value_loss": 1250.1}, ["value loss"]),
        ({"entropy": nan, "kl": inf, "value_loss": inf}, ["entropy", "KL", "value loss"]),
        ({"learnt": False}, ["gradient"]),
    ],
)
def test_each_figure_has_a_bound_that_sound_updates_keep_away_from(changes, names):
    found = find_out_of_bounds(replace(SOUND, **changes), 7, 1.0)
    assert len(found.split(", ")) == max(1, len(names))
    assert all(name in found for name in names)
    assert bool(found) == bool(names)


def test_raw_rewards_allow_as_large_a_loss_as_their_scale_asks_for():
    figures = replace(SOUND, value_loss=5000.0)
    assert find_out_of_bounds(figures, 7, 1.0)
    assert not find_out_of_bounds(figures, 7, 2.1)


def after(*faults, health=PolicyHealth()):  # noqa: B008 - frozen
    for fault in faults:
        health = health.after_update(fault)
    return health


def test_a_single_odd_update_is_held_back_and_no_collapse():
    odd = after("", "entropy 0")
    assert next_action(odd) == ("hold", "contributions and checkpoints are held: entropy 0")
    assert next_action(odd.after_update("")) == ("continue", "")
    rare = after(*["entropy 0", ""] * 500)
    assert rare == PolicyHealth()


def test_bad_updates_among_a_few_good_ones_collapse_too():
    mostly = after(*(["entropy 0"] * 9 + [""]) * 2)
    assert next_action(mostly.after_update("entropy 0"))[0] == "restart"


def test_the_second_collapse_ends_the_learner():
    bad = ["entropy 0"] * policy_health.COLLAPSED_AFTER
    kind, reason = next_action(after(*[""] * 1000, *bad, health=PolicyHealth(restarted=True)))
    assert kind == "stop"
    assert reason.startswith("the policy collapsed: entropy 0, 10 more updates out of bounds than")
    assert "again after a restart; lower training.learning_rate" in reason


def errors(parts):
    return [data["text"] for event, _, data in parts.events.rows if event == "error"]


def metrics(events):
    return [data for event, _, data in events.rows if event == "metric"]


def test_without_shared_weights_the_newest_checkpoint_is_taken_and_stays(tmp_path):
    train(cartpole_parts(tmp_path, schedule=replace(SCHEDULE, total_steps=768)))
    often = replace(SCHEDULE, checkpoint_interval=256)
    parts = cartpole_parts(tmp_path, settings=DEADLY, schedule=often, term=2)
    outcome = train(parts)
    assert outcome.kind == "diverged"
    assert outcome.step == 768 + 20 * 256, "the counters go on"
    held, died, again = errors(parts)
    assert {text.split(":")[0] for text in (held, again)} == {
        "contributions and checkpoints are held"
    }
    assert died.startswith("the policy collapsed: ")
    assert [d["reason"] for _, d in parts.events.states("adopted")][1:] == [
        "took the checkpoint of step 768"
    ]
    oldest, restarted = (load_checkpoint(path) for path in reversed(list_manifests(tmp_path)))
    assert restarted.step == 768 + 10 * 256
    assert restarted.facts["optimizer_steps"] == 0
    assert not restarted.tensors["optimizer.square"].any()
    for name, value in oldest.tensors.items():
        assert not name.startswith("policy.") or torch.equal(value, restarted.tensors[name])


def test_without_any_checkpoint_it_begins_again_with_its_first_weights(tmp_path):
    parts = cartpole_parts(tmp_path, settings=DEADLY)
    assert train(parts).kind == "diverged"
    assert parts.events.states("adopted")[-1][1]["reason"].startswith("took the first weights")
    assert list_manifests(tmp_path) == []


def test_asked_to_leave_while_out_of_bounds_it_stores_nothing(tmp_path):
    train(cartpole_parts(tmp_path, schedule=replace(SCHEDULE, total_steps=768)))
    parts = cartpole_parts(tmp_path, settings=DEADLY, stopper=StopAfter(12), term=2)
    outcome = train(parts)
    assert outcome.kind == "drained"
    assert outcome.step > 768
    assert load_checkpoint(list_manifests(tmp_path)[0]).step == 768
    assert start_learner(cartpole_parts(tmp_path, term=3)).counters.env_steps == 768


class Told(Notebook):
    """A notebook that wakes tests when a learner has made updates or merged a version."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def write(self, event, step, data):
        with self.changed:
            super().write(event, step, data)
            self.changed.notify_all()

    def wait(self, condition):
        with self.changed:
            return self.changed.wait_for(condition, LIMIT_S)


class LeaveWhen:
    def __init__(self, condition):
        self.condition = condition

    def stop_reason(self):
        return "asked to" if self.condition() else None


class Fleet:
    """Real learners on the cartridge, each in a thread, with one shared folder."""

    def __init__(self, folder):
        self.folder, self.ended, self.newest = folder, {}, {}
        file = folder / "config.json"
        training = {"device": "cpu", "num_envs": 2, "horizon": 32, "batch_size": 32}
        training |= {"rom": str(cartridge_path()), "total_steps": 0, "checkpoint_interval": 64}
        settings = {"run_dir": str(folder / "run"), "training": training,
                    "slurm": {"time_limit": "0:00:01"},
                    "collaboration": {"sync_interval_steps": 64}}  # fmt: skip
        file.write_text(json.dumps(settings))
        self.config, self.workload = load_config(file, {}), WORKLOADS["pokemon_red"]

    def learner(self, slot, rate, stopper):
        events, clock, peer = Told(), SystemClock(), f"slot-{slot}"
        terms = from_config(self.config, "pokemon_red", self.workload.facts(self.config), "release")
        shared = SharedPaths(self.folder / "shared")
        around = Surroundings(
            peer=peer,
            checkpoints=self.folder / peer,
            tensorboard=None,
            lease=FakeLease(),
            exchange=SharedExchange(shared, peer, new_incarnation(), terms, clock, events),
            frames=NoFrames(),
            stopper=stopper,
            events=events,
            clock=clock,
        )
        make = self.workload.make_env(self.config)
        parts = assemble(self.config, self.workload, around, lambda: SerialVector(make, 2))
        return replace(parts, settings=replace(parts.settings, learning_rate=rate))

    def run(self, parts):
        def learn():
            self.ended[parts.peer] = train(parts)
            parts.exchange.leave_fleet("ended")

        thread = threading.Thread(target=learn, name=parts.peer, daemon=True)
        thread.start()
        return thread


def test_a_collapsed_policy_among_sound_ones_is_held_adopts_and_ends_while_the_run_lives(tmp_path):
    """The collapsed learner is the first: nothing but its own check keeps it out of version 1."""
    fleet = Fleet(tmp_path)
    sound, wait = [], threading.Event()

    def stuck():
        """Let the collapsed learner's last updates before its restart wait for a merged version."""
        played = metrics(dead.events)
        if len(played) == 5:
            wait.wait(LIMIT_S)
        return len(played) >= 40  # the code of before never ends

    dead = fleet.learner(0, 10.0, LeaveWhen(stuck))
    threads = [fleet.run(dead)]
    assert dead.events.wait(lambda: len(metrics(dead.events)) >= 3)
    for slot in (1, 2, 3):
        leave = LeaveWhen(lambda: "slot-0" in fleet.ended)
        sound.append(fleet.learner(slot, 1e-3, leave))
        threads.append(fleet.run(sound[-1]))
    adopted = sound[0].events.states
    assert sound[0].events.wait(lambda: adopted("adopted"))
    assert adopted("adopted")[0][1]["version"] == 0, (
        "the collapsed learner made a version of its own"
    )
    assert sound[0].events.wait(lambda: adopted("adopted")[-1][1]["version"] >= 1)
    wait.set()
    for thread in threads:
        thread.join(LIMIT_S)
    outcome = fleet.ended["slot-0"]
    assert (outcome.kind, outcome.step) == ("diverged", 20 * 64)
    assert "entropy" in outcome.reason
    assert "at least 0.001946" in outcome.reason
    assert dead.events.states("published") == []
    held, died, _ = errors(dead)
    assert held.startswith("contributions and checkpoints are held: ")
    assert died.startswith("the policy collapsed: ")
    restarts = [
        d for _, d in dead.events.states("adopted") if "the policy had collapsed" in d["reason"]
    ]
    assert [restart["version"] >= 1 for restart in restarts] == [True]
    assert [load_checkpoint(path).facts["optimizer_steps"] for path in list_manifests(
        tmp_path / "slot-0")] == [0]  # fmt: skip
    for parts in sound:
        assert metrics(parts.events)[-1]["entropy"] > 1.0
        inputs = [name for _, d in parts.events.states("merged") for name in d["inputs"]]
        assert not any(name.startswith("slot-0/") for name in inputs)
