"""Runs the training loop of one learner: `train`, whose steps are the functions above it.

Knows no emulator, no network and no Slurm, only the interfaces. Promises that weights are adopted
between rollouts only, that a learner that lost its lease writes nothing more, and that every
orderly end leaves a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from threading import Event
from typing import TYPE_CHECKING

import torch

from Daddy.core.atomic_files import DISK_FULL
from Daddy.core.settings import KEPT_HOURS
from Daddy.core.shared_types import Adoption
from Daddy.core.slot_lease import LEAVING
from Daddy.core.stop_conditions import WALL_TIME
from Daddy.learning.checkpoint import (
    load_newest,
    newest_term,
    save_checkpoint,
    select_prefix,
    tensor_to_bytes,
)
from Daddy.learning.gae import advantages_and_returns, explained_variance
from Daddy.learning.learner_parts import Parts
from Daddy.learning.learner_reporting import (
    new_step_hook,
    record_iteration,
    record_milestones,
    report_agents,
    write_error,
    write_state,
)
from Daddy.learning.learner_state import (
    LearnerState,
    equalise_ranks,
    new_learner,
    reset_environments,
    restore,
    to_checkpoint,
)
from Daddy.learning.policy_health import PolicyHealth, find_out_of_bounds, next_action
from Daddy.learning.ppo import CRITIC_STEPS, fit_critic_if_better, kl_divergence, policy_log_probs
from Daddy.learning.schedules import learning_rate
from Daddy.learning.startup_preloading import LOADED

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict

_ADOPT_SECONDS = 1.0
"""Shortest time between two checks for a newer version, each of which lists a folder and writes a
heartbeat. After a contribution of this learner the next check need not wait."""
_BEAT_SECONDS = 30.0
"""Longest time between two heartbeats of a learner whose budget allows no check."""

_REPORT_SECONDS = 10.0
"""Time between two unrequested reports, for the console and for viewers that connect later."""

_ROOM_S = 600.0
_ROOM_AT_STOP_S = 60.0
"""Longest waits for room on a full disk before the last checkpoint."""
_TRY_S = 1.0

_LEASE_LOST = "the lease was given to another process"
_WALL_TIME_END = ("drained", WALL_TIME)


@dataclass(frozen=True)
class TrainingOutcome:
    """The end of a learner at its own step `step`.

    `kind`: `done` (total_steps), `drained` (to be resumed), `fenced` (lease lost) or `diverged`
    (the policy collapsed, and again after it was restarted).
    """

    kind: str
    reason: str
    step: int


def start_learner(parts: Parts) -> LearnerState:
    """Return a learner ready for its first step: restored from the newest checkpoint, or new."""
    learner = new_learner(parts)
    learner.mark("begin")
    loaded = load_newest(parts.checkpoints)
    if loaded is not None:
        restore(learner, loaded.checkpoint)
    if not learner.collector.observations:
        reset_environments(learner)
    resumed = tensor_to_bytes(loaded.checkpoint.tensors["exchange"]) if loaded else None
    totals = learner.counters.env_steps, learner.updater.optimizer.steps
    apply_adoption(learner, parts.exchange.join_fleet(learner.weights, resumed, *totals))
    equalise_ranks(learner)
    learner.first_weights = learner.weights()
    learner.stored_note = parts.exchange.resume_state()
    learner.movement.set_start(parts.vector.telemetry())
    learner.collector.after_step = new_step_hook(learner)
    if loaded is not None:
        step, refused = loaded.checkpoint.step, list(loaded.refused)
        write_state(learner, "resumed", checkpoint_step=step, refused=refused)
    learner.mark("checkpoint", "adopt", "record")
    learner.last_ran["checkpoint_steps"] = learner.counters.env_steps if loaded else 0
    learner.last_ran["publish_steps"] = learner.counters.env_steps
    return learner


def apply_adoption(learner: LearnerState, adoption: Adoption, own: StateDict | None = None) -> None:
    """Load the adopted weights; with `own`, the weights held before, also fit the critic."""
    learner.load_weights(adoption.weights)
    learner.version = adoption.version
    learner.fleet_steps = learner.parts.exchange.fleet_steps()
    facts: dict[str, object] = {}
    if own is not None and learner.rollout.completed and not adoption.refused:
        facts = fit_adopted_critic(learner, own)
    write_state(learner, "adopted", version=adoption.version, reason=adoption.reason, **facts)


def stop_reason(learner: LearnerState) -> tuple[str, str] | None:
    """Return the kind and the reason of the end, or None to continue.

    With DDP all ranks end at the same update, for whatever reason one does: a rank that went on
    alone would wait for the others, and end without a checkpoint.
    """
    own, group = find_own_end(learner), learner.parts.group
    if group.size == 1:
        return own
    shares = torch.tensor([float(own is not None), float(own == _WALL_TIME_END)])
    group.average(shares)
    ends, wall_time = shares.tolist()
    if own or not ends:
        return own
    return _WALL_TIME_END if wall_time else ("drained", "another rank ended")


def find_own_end(learner: LearnerState) -> tuple[str, str] | None:
    """Return the kind and the reason for which this rank ends, or None."""
    total = learner.parts.schedule.total_steps
    if not learner.parts.lease.held():
        return "fenced", _LEASE_LOST
    if total and max(learner.fleet_steps, learner.counters.env_steps) >= total:
        return "done", f"total_steps reached: {total:,}; raise it to go on"
    action, reason = next_action(learner.health)
    if action == "stop" or (action == "restart" and learner.parts.group.size > 1):
        return "diverged", reason
    asked = learner.parts.stopper.stop_reason()
    return ("drained", asked) if asked else None


def adoption_is_due(learner: LearnerState) -> bool:
    """Return True when it is time to check for a newer version.

    Checks are a second apart and bounded by their cost. The second is waived after a contribution:
    it becomes a new version, and contributions with an older base would be refused as stale.
    """
    contributed = learner.seconds_since("publish") < learner.seconds_since("adopt")
    rested = contributed or learner.seconds_since("adopt") >= _ADOPT_SECONDS
    return rested and learner.affordable("adopt")


def send_heartbeat(learner: LearnerState) -> None:
    """Write a heartbeat if the last one is 30 s old, lest other jobs count the learner as dead."""
    if learner.seconds_since("beat") >= _BEAT_SECONDS:
        learner.mark("beat")
        with learner.collector.stopwatch.measure("share"):
            learner.parts.exchange.beat()
        learner.costs["adopt"].total_s += learner.seconds_since("beat")


def adopt_newer(learner: LearnerState, *, learns: bool = True) -> None:
    """Adopt a newer version if there is one, and recompute the LSTM state with its weights."""
    if not adoption_is_due(learner):
        send_heartbeat(learner)
        return
    learner.mark("adopt", "beat")
    with learner.collector.stopwatch.measure("share"):
        own = learner.weights()
        totals = learner.counters.env_steps, learner.updater.optimizer.steps
        adoption = learner.parts.exchange.adopt(own, *totals)
        if adoption is not None:
            apply_adoption(learner, adoption, own if learns else None)
            learner.recompute_lstm_state()
    learner.costs["adopt"].add_run(learner.seconds_since("adopt"))


def fit_adopted_critic(learner: LearnerState, own: StateDict) -> dict[str, object]:
    """Fit the critic after an adoption; return the event's facts: KL divergence, fitted or not."""
    policy, device = learner.parts.policy, learner.parts.device
    batch = learner.rollout.last_sequence(device)
    before, after = (policy_log_probs(policy, each, batch) for each in (own, learner.weights()))
    kl = kl_divergence(before, after)
    learner.metrics["adoption_kl"] = kl
    facts = {"kl": round(kl, 6)} if isfinite(kl) else {}
    fitted = fit_critic_if_better(policy, learner.rollout.spread_sample(CRITIC_STEPS, device))
    return {**facts, "critic_fitted": fitted}


def collect_rollout(learner: LearnerState) -> bool:
    """Play one horizon in every environment; return False if stopped before it was full."""
    alone = learner.parts.group.size == 1  # others could not stop at the same step
    stop = learner.parts.stopper.stop_reason if alone else lambda: None
    with learner.collector.stopwatch.measure("collect"):
        full = learner.collector.collect(learner.rollout, stop)
    if not learner.updated:
        learner.parts.boot.mark("rollout")
    env_steps = learner.counters.env_steps + learner.rollout.rewards.size
    record_milestones(learner, env_steps, with_present=full)
    if full:
        learner.counters.env_steps = env_steps
        learner.counters.episodes += len(learner.rollout.episodes)
        if learner.seconds_since("report") >= _REPORT_SECONDS:
            report_agents(learner)
    return full


def estimate_advantages(learner: LearnerState) -> None:
    """Compute the rollout's advantages and returns."""
    rollout, settings = learner.rollout, learner.parts.settings
    rollout.advantages, rollout.returns = advantages_and_returns(
        rollout.rewards,
        rollout.values,
        rollout.dones,
        rollout.last_values,
        settings.gamma,
        settings.gae_lambda,
    )
    learner.metrics["explained_variance"] = explained_variance(rollout.values, rollout.returns)


def update_policy(learner: LearnerState) -> None:
    """Run one PPO update on the rollout."""
    settings, total = learner.parts.settings, learner.parts.schedule.total_steps
    steps = max(learner.fleet_steps, learner.counters.env_steps)
    rate = learning_rate(settings.learning_rate, settings.learning_rate_schedule, steps, total)
    with learner.collector.stopwatch.measure("update"):
        learner.metrics.update(learner.updater.update(learner.rollout, rate))
    learner.metrics["learning_rate"] = rate
    learner.counters.iterations += 1
    if not learner.updated:
        learner.parts.boot.mark("update")
        write_state(learner, "first_update", **learner.parts.boot.facts())
        learner.updated = True


def check_policy(learner: LearnerState) -> None:
    """Hold contributions and checkpoints of a policy out of bounds; restart a collapsed one."""
    parts, normaliser = learner.parts, learner.collector.normaliser
    held = learner.health.out_of_bounds
    learnt = learner.metrics["skipped_minibatches"] < learner.updater.minibatches
    with learner.collector.stopwatch.measure("update"):
        figures = learner.updater.measure(learner.rollout, learnt=learnt)
    deviation = 1.0 if parts.settings.normalise_rewards else max(1.0, normaliser.deviation)
    out_of_bounds = find_out_of_bounds(figures, int(parts.vector.action_space.n), deviation)
    learner.health = learner.health.after_update(out_of_bounds)
    action, reason = next_action(learner.health)
    if action == "hold" and not held:
        write_error(learner, reason)
    if action == "restart" and parts.group.size == 1:
        write_error(learner, f"{reason}; {restart_policy(learner)}")


def restart_policy(learner: LearnerState) -> str:
    """Take the newest shared version with new moments, keep counters and environments.

    Return the source of the weights.
    """
    steps = learner.counters.env_steps
    adoption = learner.parts.exchange.restart_from_newest(steps) or last_good_policy(learner)
    apply_adoption(learner, adoption)
    learner.updater.optimizer.reset_moments()
    learner.recompute_lstm_state()
    learner.health = PolicyHealth(restarted=True)
    learner.last_ran["publish_steps"] = steps
    return adoption.reason


def last_good_policy(learner: LearnerState) -> Adoption:
    """Return the newest checkpoint's weights, or if there is none this process's first weights.

    For learners without shared weights. No checkpoint is written while a policy is out of bounds.
    """
    loaded = load_newest(learner.parts.checkpoints)
    if loaded is not None:
        step = loaded.checkpoint.step
        weights = select_prefix(loaded.checkpoint.tensors, "policy.")
        return Adoption(learner.version, weights, f"took the checkpoint of step {step:,}")
    return Adoption(learner.version, learner.first_weights, "took the first weights again")


def publish_progress(learner: LearnerState) -> None:
    """Publish the weights' change since the adopted version as a contribution."""
    steps, optimizer_steps = learner.counters.env_steps, learner.updater.optimizer.steps
    learner.mark("publish")
    with learner.collector.stopwatch.measure("share"):
        message = learner.parts.exchange.publish(learner.weights(), steps, optimizer_steps)
        learner.fleet_steps = learner.parts.exchange.fleet_steps()
    learner.last_ran["publish_steps"] = steps
    learner.costs["publish"].add_run(learner.seconds_since("publish"))
    write_state(learner, "published", said=message)


def publish_if_due(learner: LearnerState) -> None:
    """Publish every `sync_interval` steps, or as often as its cost allows."""
    schedule = learner.parts.schedule
    since = learner.counters.env_steps - learner.last_ran["publish_steps"]
    due = since >= schedule.sync_interval and learner.affordable("publish")
    if due and not learner.health.out_of_bounds and learner.parts.lease.held():
        publish_progress(learner)


def write_checkpoint(learner: LearnerState) -> None:
    """Write a checkpoint, unless the newest one holds the same state already.

    A rollout in progress is stored too, but not after this term's own checkpoint of the same step,
    from which a successor replays it with the same result. An offer or adoption since then needs
    another checkpoint, or a successor would offer the same progress, with its steps, once more.
    """
    schedule, steps = learner.parts.schedule, learner.counters.env_steps
    note = learner.parts.exchange.resume_state()
    written = newest_term(learner.parts.checkpoints)
    in_progress = learner.rollout.filled and written != learner.term
    same = steps == learner.last_ran["checkpoint_steps"] and note == learner.stored_note
    if same and written and not in_progress:
        return
    state = to_checkpoint(learner)
    save_checkpoint(learner.parts.checkpoints, state, schedule.max_keep, KEPT_HOURS)
    learner.trouble = ""
    learner.mark("checkpoint")
    learner.last_ran["checkpoint_steps"], learner.stored_note = steps, note
    write_state(learner, "checkpointed", iteration=learner.counters.iterations)


def checkpoint_if_due(learner: LearnerState) -> None:
    """Write a checkpoint every `checkpoint_interval` steps, `checkpoint_seconds` apart at least."""
    schedule = learner.parts.schedule
    since = learner.counters.env_steps - learner.last_ran["checkpoint_steps"]
    due = since >= schedule.checkpoint_interval
    due = due and learner.seconds_since("checkpoint") >= schedule.checkpoint_seconds
    if due and not learner.health.out_of_bounds and learner.parts.lease.held():
        try:
            write_checkpoint(learner)
        except OSError as error:  # a full disk: continue, and try again when next due
            learner.mark("checkpoint")
            report_unwritten(learner, error)


def report_unwritten(learner: LearnerState, error: OSError) -> None:
    """Write an error event, and the same into the next heartbeats."""
    learner.trouble = f"no checkpoint could be written: {error}"
    write_error(learner, learner.trouble)


def write_last_checkpoint(learner: LearnerState, reason: str) -> None:
    """Write a checkpoint; on a full disk wait for room, as the steps since the last are lost else.

    A job whose time is up has minutes until the scheduler ends it; a person who stops a learner
    gets a shorter time.
    """
    lease, wait_s = learner.parts.lease, _ROOM_S if reason == WALL_TIME else _ROOM_AT_STOP_S
    learner.mark("last")
    while True:
        try:
            write_checkpoint(learner)
            return
        except OSError as error:
            waited = learner.seconds_since("last") >= wait_s or not lease.held()
            if error.errno not in DISK_FULL or waited:
                raise
            if not learner.trouble:
                report_unwritten(learner, error)
            learner.parts.clock.wait(Event(), _TRY_S)


def end_training(learner: LearnerState, kind: str, reason: str) -> TrainingOutcome:
    """Publish the last progress and write a checkpoint, except after `fenced` and `diverged`.

    A policy that is out of bounds is not stored: the next process continues from the checkpoint
    before.
    """
    if kind in ("done", "drained"):
        learner.parts.lease.beat({"stage": LEAVING})
        if not learner.parts.lease.held():
            return TrainingOutcome("fenced", _LEASE_LOST, learner.counters.env_steps)
        if learner.health.out_of_bounds:
            return TrainingOutcome(kind, reason, learner.counters.env_steps)
        publish_progress(learner)  # also if a laptop waited between two contributions
        write_last_checkpoint(learner, reason)
    return TrainingOutcome(kind, reason, learner.counters.env_steps)


def train(parts: Parts) -> TrainingOutcome:
    """Train until asked to stop, `total_steps` are reached or the lease is lost."""
    learner = start_learner(parts)
    parts.boot.mark(LOADED)
    while (stop := stop_reason(learner)) is None:
        adopt_newer(learner)
        if not collect_rollout(learner):
            continue
        estimate_advantages(learner)
        update_policy(learner)
        check_policy(learner)
        publish_if_due(learner)
        checkpoint_if_due(learner)
        record_iteration(learner)
    return end_training(learner, *stop)
