"""Everything that a learner tells others: events, curves, beats, reports and pictures.

Events carry this peer's environment steps. After every step at most one byte is read
(:func:`new_step_hook`): no clock, since the stream says when a report or a picture is due, and a
picture is drawn when it is asked for, not at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from Daddy.learning.diagnostics import named
from Daddy.learning.learner_state import Session

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
"""Work that a share of the time is told of, by the share's name."""
_EPISODES_PER_EVENT = 256
"""An event's line is bounded; 256 episodes are some 8 kB."""


def write_state(session: Session, state: str, **data: object) -> None:
    """One step in this learner's life."""
    step = session.counters.env_steps
    session.parts.events.write("state", step, {"state": state, **data})


def write_error(session: Session, text: str) -> None:
    """Something failed and the loop goes on."""
    session.parts.events.write("error", session.counters.env_steps, {"text": text})


def note_milestones(session: Session, step: int, *, with_present: bool) -> None:
    """Tell the milestones first seen in the rollout that ends at `step`.

    Seen at the end of its episodes, and in what stands now where it is played to its end: however
    often a rollout is interrupted, the same is found.
    """
    vector = session.parts.vector
    facts: list[Mapping[str, Any]] = [end.info for end in session.rollout.episodes]
    facts += named(vector.telemetry_names, vector.telemetry()) if with_present else []
    for name in session.milestones.look(step, facts):
        helped = session.milestones.helped.get(name, [])
        session.parts.events.write("progress", step, {"milestone": name, "assists": helped})
        session.fresh.append(name)
    for name in sorted(
        {name for row in facts for name in session.parts.workload.assists_given_up(row)}
    ):
        if name not in session.given_up:
            session.given_up.add(name)
            write_error(session, f"the assist {name} is given up: it failed three times in a row")


def record(session: Session) -> None:
    """Write this iteration's metrics and episodes and beat the heart."""
    session.metrics.update(_measured(session))
    _write_row(session)
    _write_episodes(session)
    session.parts.lease.beat(
        {
            "stage": "training",
            "env_steps": session.counters.env_steps,
            "iterations": session.counters.iterations,
            "checkpoint_step": int(session.due["checkpoint_steps"]),
            "version": session.version,
            "fleet_steps": session.fleet_steps,
            "steps_per_second": round(session.metrics.get("steps_per_second", 0.0), 1),
            "boot_s": session.parts.boot.facts()["boot_s"],
        }
    )
    session.metrics = {}


def _measured(session: Session) -> dict[str, float]:
    episodes, elapsed = session.rollout.episodes, max(session.since("record"), 1e-9)
    session.mark("record")
    spent = session.collector.watch.take()
    found = {
        "iteration": float(session.counters.iterations),
        "episodes": float(len(episodes)),
        "reward_scale": session.collector.normaliser.deviation,
        "version": float(session.version),
        "fleet_steps": float(session.fleet_steps),
        "steps_per_second": session.rollout.rewards.size / elapsed,
        **{f"{name}_share": spent.get(work, 0.0) / elapsed for name, work in _SHARES.items()},
        **{f"{work}_seconds": spent.get(work, 0.0) for work in ("collect", "update", "share")},
        "milestones": float(len(session.milestones.first) - len(session.milestones.helped)),
        "milestones_assisted": float(len(session.milestones.helped)),
        **session.walks.take(),
    }
    if episodes:
        found["episode_return"] = sum(end.episode_return for end in episodes) / len(episodes)
        found["episode_length"] = sum(end.length for end in episodes) / len(episodes)
    return found


def _write_row(session: Session) -> None:
    row = {
        name: float(f"{value:.6g}")
        for name, value in session.metrics.items()
        if name in METRICS and isfinite(value)
    }
    session.parts.events.write("metric", session.counters.env_steps, row)
    seen = session.milestones
    for name in session.fresh:
        curve = "milestone_assisted" if name in seen.helped else "milestone"
        row[f"{curve}/{name}"] = float(seen.first[name])
    session.parts.board.scalars(session.counters.env_steps, row)
    session.fresh = []


def _write_episodes(session: Session) -> None:
    """Finished episodes as columns, and the version of the shared weights adopted last."""
    episodes = session.rollout.episodes
    for first in range(0, len(episodes), _EPISODES_PER_EVENT):
        some = episodes[first : first + _EPISODES_PER_EVENT]
        data = {
            "result": "episodes",
            "agents": [end.env for end in some],
            "returns": [round(float(end.episode_return), 4) for end in some],
            "own_start": [int(not end.info.get("loaded")) for end in some],
            "version": session.version,
            "lengths": [int(end.length) for end in some],
        }
        session.parts.events.write("result", session.counters.env_steps, data)


def new_step_hook(session: Session) -> Callable[[slice], None]:
    """A function to call with the environments that have just made a step."""
    walks = session.walks if session.walks.watching else None
    vector, frames = session.parts.vector, session.parts.frames
    asks, asked, drawing = frames.request_counter, 0, frozenset[int]()

    def after_step(members: slice) -> None:
        nonlocal asked, drawing
        if walks is not None:
            walks.look(vector.telemetry()[members], members.start)
        if drawing:
            pictures = vector.frames()
            if pictures.keys() >= drawing:  # as soon as the last of them is drawn
                for agent in drawing:
                    frames.send_picture(agent, pictures[agent])
                drawing = frozenset()
                vector.watch(drawing)
        elif asks[0] != asked:
            asked = asks[0]
            reports, wanted = frames.poll_requests()
            if reports:
                report(session)
            if wanted:
                drawing = wanted & frozenset(range(vector.num_envs))
                vector.watch(drawing)

    return after_step


def report(session: Session) -> None:
    """How far each agent is: when that is asked for, and now and then after a rollout."""
    session.mark("report")
    parts, steps = session.parts, session.counters.env_steps
    parts.frames.send_reports(
        [replace(one, step=steps) for one in parts.workload.reports(parts.vector)]
    )
