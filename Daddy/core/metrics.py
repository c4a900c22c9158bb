"""Pure: the names of everything measured while training, said once (``docs/metrics.md``)."""

from __future__ import annotations

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
"""Metric name → meaning. A learner's ``metric`` event holds a subset of these."""
