"""Writes a learner's events, curves and heartbeats, and sends its reports and pictures.

Events carry this peer's environment steps. The hook after every step (:func:`new_step_hook`) reads
one byte and no clock: the frame sink requests a report or a picture when one is due, and only
requested pictures are drawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from Daddy.learning.behaviour_metrics import rows_to_facts
from Daddy.learning.learner_state import LearnerState

METRICS: dict[str, str] = {
    "iteration": "PPO iterations of this learner",
    "steps_per_second": "environment steps per second of this learner, whole iteration",
    "episodes": "episodes that ended in this iteration",
    "episode_return": "mean return of those episodes (absent when none ended)",
    "episode_length": "mean length of those episodes in steps",
    "policy_loss": "clipped surrogate loss",
    "value_loss": "value loss",
    "entropy": "mean policy entropy in nats",
    "approx_kl": "mean approximate KL divergence of the update",
    "clip_fraction": "share of samples whose ratio was clipped",
    "explained_variance": "share of return variance the value function explains",
    "gradient_norm": "mean gradient norm before clipping",
    "skipped_minibatches": "minibatches thrown away because their gradient was not finite",
    "learning_rate": "Adam step size used",
    "reward_scale": "running standard deviation that rewards are divided by",
    "version": "version of the shared weights adopted last",
    "fleet_steps": "environment steps of all contributors in that version",
    "adoption_kl": "KL divergence in nats of the policy when it adopted that version",
    "collect_seconds": "time spent playing",
    "update_seconds": "time spent learning",
    "share_seconds": "time spent on shared weights",
    "emulation_share": "share of the iteration's time spent waiting for environments",
    "inference_share": "share of it in which the policy chose actions",
    "learning_share": "share of it in which the policy was updated",
    "loop_share": "share of moves that led back to one of the last 20 cells an agent left",
    "coverage": "distinct cells that this learner's agents have stood on since its run began",
    "milestones": "required milestones that this learner's agents have reached by themselves",
    "milestones_assisted": "those first reached in games in which an assist had acted",
}
"""Metric name → meaning (``docs/metrics.md``); a ``metric`` event holds a subset of these."""

_SHARES = {"emulation": "emulation", "inference": "inference", "learning": "update"}
"""Activities of the stopwatch, by the name of the metric that gives their share of the time."""
_EPISODES_PER_EVENT = 256
"""Limit of one event, whose line is bounded: 256 episodes are some 8 kB."""


def write_state(learner: LearnerState, state: str, **data: object) -> None:
    """Write a state event: `state` and `data`, at the learner's step."""
    step = learner.counters.env_steps
    learner.parts.events.write("state", step, {"state": state, **data})


def write_error(learner: LearnerState, text: str) -> None:
    """Write an error event with `text`, after which the loop continues."""
    learner.parts.events.write("error", learner.counters.env_steps, {"text": text})


def record_milestones(learner: LearnerState, step: int, *, with_present: bool) -> None:
    """Write an event for each milestone first reached in the rollout that ends at `step`.

    Milestones are read from ended episodes, and if `with_present` (a full rollout) from present
    telemetry too. A newly disabled assist gets an error event.
    """
    vector = learner.parts.vector
    facts: list[Mapping[str, Any]] = [
        end.info.get("summary", {}) for end in learner.rollout.episodes
    ]
    facts += rows_to_facts(vector.telemetry_names, vector.telemetry()) if with_present else []
    for name in learner.milestones.record_new(step, facts):
        assists = learner.milestones.assisted.get(name, [])
        learner.parts.events.write("progress", step, {"milestone": name, "assists": assists})
        learner.new_milestones.append(name)
    for name in sorted(
        {name for row in facts for name in learner.parts.workload.assists_given_up(row)}
    ):
        if name not in learner.assists_given_up:
            learner.assists_given_up.add(name)
            write_error(learner, f"the assist {name} is disabled: it failed three times in a row")


def record_iteration(learner: LearnerState) -> None:
    """Write this iteration's metrics and episodes as events, and a heartbeat to the lease."""
    learner.metrics.update(_measure(learner))
    _write_metrics(learner)
    _write_episodes(learner)
    learner.parts.lease.beat(
        {
            "stage": "training",
            "env_steps": learner.counters.env_steps,
            "iterations": learner.counters.iterations,
            "checkpoint_step": int(learner.last_ran["checkpoint_steps"]),
            "version": learner.version,
            "fleet_steps": learner.fleet_steps,
            "steps_per_second": round(learner.metrics.get("steps_per_second", 0.0), 1),
            "boot_s": learner.parts.boot.facts()["boot_s"],
            "trouble": learner.trouble,
        }
    )
    learner.metrics = {}


def _measure(learner: LearnerState) -> dict[str, float]:
    episodes, milestones = learner.rollout.episodes, learner.milestones
    elapsed = max(learner.seconds_since("record"), 1e-9)
    learner.mark("record")
    seconds = learner.collector.stopwatch.pop_seconds()
    metrics = {
        "iteration": float(learner.counters.iterations),
        "episodes": float(len(episodes)),
        "reward_scale": learner.collector.normaliser.deviation,
        "version": float(learner.version),
        "fleet_steps": float(learner.fleet_steps),
        "steps_per_second": learner.rollout.rewards.size / elapsed,
        **{f"{name}_share": seconds.get(work, 0.0) / elapsed for name, work in _SHARES.items()},
        **{f"{work}_seconds": seconds.get(work, 0.0) for work in ("collect", "update", "share")},
        "milestones": float(len(milestones.first) - len(milestones.assisted)),
        "milestones_assisted": float(len(milestones.assisted)),
        **learner.movement.pop_gauges(),
    }
    if episodes:
        metrics["episode_return"] = sum(end.episode_return for end in episodes) / len(episodes)
        metrics["episode_length"] = sum(end.length for end in episodes) / len(episodes)
    return metrics


def _write_metrics(learner: LearnerState) -> None:
    row = {
        name: float(f"{value:.6g}")
        for name, value in learner.metrics.items()
        if name in METRICS and isfinite(value)
    }
    learner.parts.events.write("metric", learner.counters.env_steps, row)
    milestones = learner.milestones
    for name in learner.new_milestones:
        curve = "milestone_assisted" if name in milestones.assisted else "milestone"
        row[f"{curve}/{name}"] = float(milestones.first[name])
    learner.parts.board.scalars(learner.counters.env_steps, row)
    learner.new_milestones = []


def _write_episodes(learner: LearnerState) -> None:
    """Write this iteration's finished episodes as events, with the version adopted last."""
    episodes = learner.rollout.episodes
    for first in range(0, len(episodes), _EPISODES_PER_EVENT):
        batch = episodes[first : first + _EPISODES_PER_EVENT]
        data = {
            "result": "episodes",
            "agents": [end.env for end in batch],
            "returns": [round(float(end.episode_return), 4) for end in batch],
            "own_start": [int(not end.info.get("loaded")) for end in batch],
            "version": learner.version,
            "lengths": [int(end.length) for end in batch],
        }
        learner.parts.events.write("result", learner.counters.env_steps, data)


def new_step_hook(learner: LearnerState) -> Callable[[slice], None]:
    """Return the hook for `Collector.after_step`: records movement, sends requested pictures."""
    movement = learner.movement if learner.movement.enabled else None
    vector, frames = learner.parts.vector, learner.parts.frames
    counter, handled, drawing = frames.request_counter, 0, frozenset[int]()

    def after_step(members: slice) -> None:
        nonlocal handled, drawing
        if movement is not None:
            movement.record_step(vector.telemetry()[members], members.start)
        if drawing:
            pictures = vector.pictures()
            if pictures.keys() >= drawing:  # as soon as the last of them is drawn
                for agent in drawing:
                    frames.send_picture(agent, pictures[agent])
                drawing = frozenset()
                vector.request_pictures(drawing)
        elif counter[0] != handled:
            handled = counter[0]
            reports, wanted = frames.poll_requests()
            if reports:
                report_agents(learner)
            if wanted:
                drawing = wanted & frozenset(range(vector.num_envs))
                vector.request_pictures(drawing)

    return after_step


def report_agents(learner: LearnerState) -> None:
    """Send an AgentReport of each agent to the frame sink."""
    learner.mark("report")
    parts, step = learner.parts, learner.counters.env_steps
    parts.frames.send_reports([replace(r, step=step) for r in parts.workload.reports(parts.vector)])
