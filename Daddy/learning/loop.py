"""THE loop: what a learner does, top to bottom; every step is a function above `train`.

Owns the order of things and nothing else: it knows no emulator, no network and no Slurm, only the
ports. Promises that weights are adopted between rollouts only, that a place that was lost is never
written to, and that every orderly end leaves a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from Daddy.core.settings import KEPT_HOURS
from Daddy.core.shared_types import Adoption
from Daddy.core.slot_lease import LEAVING
from Daddy.learning import checkpoint as disk
from Daddy.learning.gae import advantages, explained_variance
from Daddy.learning.learner_parts import Parts
from Daddy.learning.learner_state import (
    Session,
    new_session,
    reset_environments,
    restore,
    to_checkpoint,
)
from Daddy.learning.ppo import CRITIC_STEPS, divergence, guard_critic, log_probs
from Daddy.learning.preloading import LOADED
from Daddy.learning.run_log import (
    new_step_hook,
    note_milestones,
    record,
    report,
    write_error,
    write_state,
)
from Daddy.learning.schedules import learning_rate

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict

_ADOPT_SECONDS = 1.0
"""Shortest time between two looks with no offer of ours between: each is a listing and a beat."""
_BEAT_SECONDS = 30.0
"""Longest time without a beat, however rarely looks can be afforded."""

_REPORT_SECONDS = 10.0
"""Time between two reports while nobody asks for one: a farewell and a viewer to come need some."""

_LOST = "the place was given to another process"
_BARREN_UPDATES = 20
"""Iterations without a finite gradient after which going on is a waste of a GPU."""


@dataclass(frozen=True)
class Outcome:
    """The end of a learner.

    `done` (total_steps), `drained` (go on with me), `fenced` (the place was given away) or
    `diverged` (going on is pointless).
    """

    kind: str
    reason: str
    step: int


def begin(parts: Parts) -> Session:
    """A session ready for its first step: restored from the newest checkpoint, or new."""
    session = new_session(parts)
    session.mark("begin")
    found = disk.load_newest(parts.checkpoints)
    if found is not None:
        restore(session, found.checkpoint)
    if not session.collector.observations:
        reset_environments(session)
    resumed = disk.bytes_of(found.checkpoint.tensors["exchange"]) if found else None
    take_over(session, parts.exchange.join_fleet(session.weights, resumed))
    session.walks.begin(parts.vector.telemetry())
    session.collector.after_step = new_step_hook(session)
    if found is not None:
        step, refused = found.checkpoint.step, list(found.refused)
        write_state(session, "resumed", checkpoint_step=step, refused=refused)
    session.mark("checkpoint", "adopt", "record")
    session.due["checkpoint_steps"] = session.counters.env_steps if found else 0
    session.due["publish_steps"] = session.counters.env_steps
    return session


def take_over(session: Session, adoption: Adoption, own: StateDict | None = None) -> None:
    """Go on with the adopted weights; a learner that held `own` weights has its critic fitted."""
    session.take_weights(adoption.weights)
    session.version = adoption.version
    session.fleet_steps = session.parts.exchange.fleet_steps()
    told: dict[str, object] = {}
    if own is not None and session.rollout.played and not adoption.refused:
        told = settle(session, own)
    write_state(session, "adopted", version=adoption.version, reason=adoption.reason, **told)


def stop_reason(session: Session) -> tuple[str, str] | None:
    """Why to leave now, as kind and reason; None to go on."""
    total = session.parts.pace.total_steps
    if not session.parts.lease.held():
        return "fenced", _LOST
    if total and max(session.fleet_steps, session.counters.env_steps) >= total:
        return "done", f"total_steps reached: {total:,}; raise it to go on"
    if session.barren >= _BARREN_UPDATES:
        return "diverged", f"{session.barren} updates without one finite gradient"
    reason = session.parts.stopper.stop_reason()
    return ("drained", reason) if reason else None


def look_is_due(session: Session) -> bool:
    """Return True when it is time to look for a newer version.

    At most once a second, and as often as its cost allows. After an offer of ours a second need not
    pass: our own offers become versions, and a learner that makes many of them without looking
    works on a base that is too old to count.
    """
    offered = session.since("publish") < session.since("adopt")
    rested = offered or session.since("adopt") >= _ADOPT_SECONDS
    return rested and session.affordable("adopt")


def prove_life(session: Session) -> None:
    """Beat, for whoever cannot afford a look would be given up otherwise."""
    if session.since("beat") >= _BEAT_SECONDS:
        session.mark("beat")
        with session.collector.watch.on("share"):
            session.parts.exchange.beat()
        session.costs["adopt"].total_s += session.since("beat")


def adopt_newer(session: Session, *, learns: bool = True) -> None:
    """Take over a newer version if there is one; the memory is played again under its weights."""
    if not look_is_due(session):
        prove_life(session)
        return
    session.mark("adopt", "beat")
    with session.collector.watch.on("share"):
        own = session.weights()
        adoption = session.parts.exchange.adopt(own)
        if adoption is not None:
            take_over(session, adoption, own if learns else None)
            session.replay_memory()
    session.costs["adopt"].add(session.since("adopt"))


def settle(session: Session, own: StateDict) -> dict[str, object]:
    """Fit the critic of a learner that held `own` weights; facts for the event."""
    policy, device = session.parts.policy, session.parts.device
    batch = session.rollout.last_sequence(device)
    before, after = (log_probs(policy, each, batch) for each in (own, session.weights()))
    kl = divergence(before, after)
    session.metrics["adoption_kl"] = kl
    told = {"kl": round(kl, 6)} if isfinite(kl) else {}
    fitted = guard_critic(policy, session.rollout.spread(CRITIC_STEPS, device))
    return {**told, "critic_fitted": fitted}


def collect(session: Session) -> bool:
    """Play one horizon everywhere; False when asked to leave before it was full."""
    with session.collector.watch.on("collect"):
        full = session.collector.collect(session.rollout, session.parts.stopper.stop_reason)
    if not session.updated:
        session.parts.boot.mark("rollout")
    reached = session.counters.env_steps + session.rollout.rewards.size
    note_milestones(session, reached, with_present=full)
    if full:
        session.counters.env_steps = reached
        session.counters.episodes += len(session.rollout.episodes)
        if session.since("report") >= _REPORT_SECONDS:
            report(session)
    return full


def estimate(session: Session) -> None:
    """Advantages and value targets of the rollout."""
    rollout, settings = session.rollout, session.parts.settings
    rollout.advantages, rollout.targets = advantages(
        rollout.rewards,
        rollout.values,
        rollout.dones,
        rollout.last_values,
        settings.gamma,
        settings.gae_lambda,
    )
    session.metrics["explained_variance"] = explained_variance(rollout.values, rollout.targets)


def update(session: Session) -> None:
    """Learn from the rollout."""
    settings, total = session.parts.settings, session.parts.pace.total_steps
    steps = max(session.fleet_steps, session.counters.env_steps)
    rate = learning_rate(settings.learning_rate, settings.learning_rate_schedule, steps, total)
    with session.collector.watch.on("update"):
        session.metrics.update(session.learner.update(session.rollout, rate))
    session.metrics["learning_rate"] = rate
    learnt = session.metrics["skipped_minibatches"] < session.learner.minibatches
    session.barren = 0 if learnt else session.barren + 1
    session.counters.iterations += 1
    if not session.updated:
        session.parts.boot.mark("update")
        write_state(session, "first_update", **session.parts.boot.facts())
        session.updated = True


def publish(session: Session) -> None:
    """Offer the progress since the adopted base."""
    steps, optimizer_steps = session.counters.env_steps, session.learner.optimizer.steps
    session.mark("publish")
    with session.collector.watch.on("share"):
        said = session.parts.exchange.publish(session.weights(), steps, optimizer_steps)
        session.fleet_steps = session.parts.exchange.fleet_steps()
    session.due["publish_steps"] = steps
    session.costs["publish"].add(session.since("publish"))
    write_state(session, "published", said=said)


def publish_if_due(session: Session) -> None:
    """Publish every `sync_interval` steps, or as often as its cost allows."""
    pace = session.parts.pace
    since = session.counters.env_steps - session.due["publish_steps"]
    due = since >= pace.sync_interval and session.affordable("publish")
    if due and session.parts.lease.held():
        publish(session)


def checkpoint(session: Session) -> None:
    """Put everything on disk, unless the newest checkpoint holds this already.

    A rollout begun since then is kept too, but never by writing over a checkpoint of our own: what
    goes on from there plays it once more, to the letter.
    """
    pace, steps = session.parts.pace, session.counters.env_steps
    written = disk.newest_term(session.parts.checkpoints)
    begun = session.rollout.filled and written != session.term
    if steps == session.due["checkpoint_steps"] and written and not begun:
        return
    kept = to_checkpoint(session)
    disk.save(session.parts.checkpoints, kept, pace.max_keep, KEPT_HOURS)
    session.mark("checkpoint")
    session.due["checkpoint_steps"] = steps
    write_state(session, "checkpointed", iteration=session.counters.iterations)


def checkpoint_if_due(session: Session) -> None:
    """Checkpoint every `checkpoint_interval` steps, but not too often for the disk."""
    pace = session.parts.pace
    since = session.counters.env_steps - session.due["checkpoint_steps"]
    due = since >= pace.checkpoint_interval
    due = due and session.since("checkpoint") >= pace.checkpoint_seconds
    if due and session.parts.lease.held():
        try:
            checkpoint(session)
        except OSError as error:  # a full disk: go on, the next try comes when due again
            session.mark("checkpoint")
            write_error(session, f"no checkpoint could be written: {error}")


def leave(session: Session, kind: str, reason: str) -> Outcome:
    """Hand in what was learnt and put everything on disk, unless there is nothing good to keep."""
    if kind in ("done", "drained"):
        session.parts.lease.beat({"stage": LEAVING})
        if not session.parts.lease.held():
            return Outcome("fenced", _LOST, session.counters.env_steps)
        if session.counters.env_steps > session.due["publish_steps"]:
            publish(session)
        checkpoint(session)
    return Outcome(kind, reason, session.counters.env_steps)


def train(parts: Parts) -> Outcome:
    """Learn until told to stop, `total_steps` are reached or the place is lost."""
    session = begin(parts)
    parts.boot.mark(LOADED)
    while (stop := stop_reason(session)) is None:
        adopt_newer(session)
        if not collect(session):
            continue
        estimate(session)
        update(session)
        publish_if_due(session)
        checkpoint_if_due(session)
        record(session)
    return leave(session, *stop)
