"""Balance poles (CartPole-v1): train a policy, then play episodes and print JSON lines.

    python cartpole_task.py SANDBOX_ID EPISODES LEARNING_RATE [--policy ppo|controller|sb3]

A line every 50 episodes, and one at the end. The program imports nothing of Daddy: `run_demo.py`
copies it as it is here into each sandbox. Everything that it prints, but for `elapsed_s`, follows
from its arguments. An option's default is an environment variable, as run_demo.py sets it.
"""

import argparse
import json
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

EPISODE_STEPS = 500
LINE_EPISODES = 50
"""Episodes that are played side by side, after which a line is printed."""
SOLVED_MEAN, SOLVED_EPISODES = 195.0, 100
POLES, ROLLOUT, EPOCHS, MINIBATCH = 16, 64, 4, 256
GAMMA, LAMBDA, CLIP, VALUE_WEIGHT, GRADIENT_NORM = 0.98, 0.9, 0.2, 0.5, 0.5

Policy = Callable[[Any], Any]
"""Returns the action (0: push left, 1: push right) for a state of four numbers, or of each row."""


def push(state: Any, action: Any, sin: Callable[[Any], Any], cos: Callable[[Any], Any]) -> Any:
    """Return the state after 20 ms, of one pole (numbers) or of many (arrays)."""
    x, speed, angle, spin = state
    turned = cos(angle)
    base = (20.0 * action - 10.0 + 0.05 * spin * spin * sin(angle)) / 1.1
    pull = (9.8 * sin(angle) - turned * base) / (0.5 * (4 / 3 - 0.1 * turned * turned / 1.1))
    moved = base - 0.05 * pull * turned / 1.1
    return x + 0.02 * speed, speed + 0.02 * moved, angle + 0.02 * spin, spin + 0.02 * pull


def controller_episodes(generator: random.Random, episodes: int) -> list[float]:
    """Play episodes with a linear controller; needs the standard library alone."""
    return [_controller_episode(generator) for _ in range(episodes)]


def _controller_episode(generator: random.Random) -> float:
    state = tuple(generator.uniform(-0.05, 0.05) for _ in range(4))
    for step in range(EPISODE_STEPS):
        x, speed, angle, spin = state
        action = angle + 0.3 * spin + 0.05 * x + 0.1 * speed > 0
        state = push(state, action, math.sin, math.cos)
        if abs(state[0]) > 2.4 or abs(state[2]) > 0.2095:
            return step + 1.0
    return float(EPISODE_STEPS)


class Poles:
    """Simulates several poles side by side; each starts anew after its fall or 500 steps."""

    def __init__(self, generator: Any, count: int) -> None:
        import numpy as np

        self._np, self._generator = np, generator
        self.states = self._starts(count)
        self._steps = np.zeros(count, np.int64)

    def _starts(self, count: int) -> Any:
        return self._generator.uniform(-0.05, 0.05, (count, 4))

    def step(self, actions: Any) -> Any:
        """Push all poles; return a boolean for each whose episode has ended."""
        np = self._np
        self.states = np.stack(push(self.states.T, actions, np.sin, np.cos), 1)
        self._steps += 1
        ended = (np.abs(self.states[:, 0]) > 2.4) | (np.abs(self.states[:, 2]) > 0.2095)
        ended |= self._steps >= EPISODE_STEPS
        self.states[ended] = self._starts(int(ended.sum()))
        self._steps[ended] = 0
        return ended


def greedy_episodes(policy: Policy, generator: Any, episodes: int) -> list[float]:
    """Play episodes side by side, each to its end, so that short ones are no majority."""
    import numpy as np

    poles, returns = Poles(generator, episodes), np.zeros(episodes)
    playing = np.ones(episodes, bool)
    while playing.any():
        returns += playing
        playing &= ~poles.step(policy(poles.states))
    return [float(value) for value in returns]


def train_ppo(rate: float, timesteps: int, seed: int) -> Policy:
    """Train by proximal policy optimisation (Schulman et al., 2017); return the greedy policy."""
    import numpy as np
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    network = nn.Sequential(body, nn.Linear(64, 3))  # two logits and the value
    optimiser = torch.optim.Adam(network.parameters(), rate)
    poles = Poles(np.random.default_rng(seed), POLES)
    for done in range(0, timesteps, POLES * ROLLOUT):
        optimiser.param_groups[0]["lr"] = rate * (1 - done / timesteps)
        batch = _collect(network, poles)
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(POLES * ROLLOUT), MINIBATCH):
                optimiser.zero_grad()
                _loss(network, *(column[rows] for column in batch)).backward()
                nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM)
                optimiser.step()

    def greedy(states: Any) -> Any:
        with torch.no_grad():
            return network(torch.from_numpy(states).float())[:, :2].argmax(1).numpy()

    return greedy


def _collect(network: Any, poles: Poles) -> list[Any]:
    """Play ROLLOUT steps; return observations, actions, log-probabilities, advantages, returns."""
    import torch

    steps = []
    with torch.no_grad():
        for _ in range(ROLLOUT):
            seen = torch.from_numpy(poles.states).float()
            out = network(seen)
            chances = out[:, :2].log_softmax(1)
            actions = (torch.rand(POLES) < chances[:, 1].exp()).long()
            taken = chances.gather(1, actions[:, None])[:, 0]
            ended = torch.from_numpy(poles.step(actions.numpy())).float()
            steps.append((seen, actions, taken, out[:, 2], ended))
        following = network(torch.from_numpy(poles.states).float())[:, 2]
    observations, actions, taken, values, ends = (torch.stack(column) for column in zip(*steps))  # noqa: B905 - the interpreter of an image may be older than 3.10
    advantages, gain = torch.zeros_like(values), torch.zeros(POLES)
    for step in reversed(range(ROLLOUT)):
        goes_on = 1 - ends[step]
        gain = 1 + GAMMA * goes_on * (following + LAMBDA * gain) - values[step]
        advantages[step], following = gain, values[step]
    columns = (observations, actions, taken, advantages, advantages + values)
    return [column.flatten(0, 1) for column in columns]


def _loss(network: Any, seen: Any, actions: Any, taken: Any, gains: Any, returns: Any) -> Any:
    import torch

    out = network(seen)
    chances = out[:, :2].log_softmax(1).gather(1, actions[:, None])[:, 0]
    ratio = (chances - taken).exp()
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    better = torch.min(ratio * gains, ratio.clamp(1 - CLIP, 1 + CLIP) * gains)
    return VALUE_WEIGHT * (out[:, 2] - returns).pow(2).mean() - better.mean()


def train_sb3(rate: float, timesteps: int, seed: int) -> Policy:
    """Train stable-baselines3's PPO with its own defaults; return the greedy policy."""
    import numpy as np
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=rate, seed=seed, device="cpu")
    model.learn(total_timesteps=timesteps)
    return lambda states: model.predict(states.astype(np.float32), deterministic=True)[0]


def episodes_by_policy(args: argparse.Namespace) -> Callable[[int], list[float]]:
    """Train what ``--policy`` names; return a function that plays a number of episodes."""
    if args.policy == "controller":
        generator = random.Random(args.seed)
        return lambda episodes: controller_episodes(generator, episodes)
    import numpy as np

    train = train_ppo if args.policy == "ppo" else train_sb3
    policy = train(args.learning_rate, args.timesteps, args.seed)
    starts = np.random.default_rng([args.seed, 1])
    return lambda episodes: greedy_episodes(policy, starts, episodes)


def mean_of_last(returns: Sequence[float]) -> float:
    """Return the mean of the last 100 returns, or of all if there are fewer."""
    last = returns[-SOLVED_EPISODES:]
    return sum(last) / len(last)


def first_solved(returns: Sequence[float]) -> "int | None":
    """Return the number of the first episode at which 100 returns have a mean of 195, or None."""
    ends = range(SOLVED_EPISODES, len(returns) + 1)
    return next((end for end in ends if mean_of_last(returns[:end]) >= SOLVED_MEAN), None)


def evaluate(args: argparse.Namespace, play: Callable[[int], list[float]]) -> list[float]:
    """Play all episodes and print a line after every 50 of them; return the episodes' returns."""
    returns: list[float] = []
    while len(returns) < args.episodes:
        returns += play(min(LINE_EPISODES, args.episodes - len(returns)))
        solved_at = first_solved(returns)
        line = {"sandbox_id": args.sandbox_id, "episode": len(returns), "reward": returns[-1]}
        line.update(avg_100=round(mean_of_last(returns), 2), solved=solved_at is not None)
        print(json.dumps({**line, "solved_at": solved_at}), flush=True)
    return returns


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description="Train on CartPole-v1 and print JSON lines.")
    add, env = parser.add_argument, os.environ.get
    add("sandbox_id", nargs="?", default="unknown", help="name in the lines (unknown)")
    add("episodes", nargs="?", type=int, default=300, help="episodes after the training (300)")
    add("learning_rate", nargs="?", type=float, default=0.001, help="learning rate (0.001)")
    policy, steps = env("TASK_POLICY", "ppo"), int(env("TASK_TIMESTEPS", "50000"))
    add("--policy", choices=("ppo", "controller", "sb3"), default=policy, help=f"({policy})")
    add("--timesteps", type=int, default=steps, help=f"steps of the training ({steps})")
    add("--seed", type=int, default=int(env("TASK_SEED", "0")), help="seed of all draws (0)")
    return parser


def main() -> None:
    """Train, play and print."""
    began = time.monotonic()
    args = make_parser().parse_args()
    returns = evaluate(args, episodes_by_policy(args))
    solved_at = first_solved(returns)
    line = {"sandbox_id": args.sandbox_id, "status": "complete", "best": max(returns)}
    line.update(final_avg=round(mean_of_last(returns), 2), solved=solved_at is not None)
    elapsed_s = round(time.monotonic() - began, 2)
    line.update(solved_at=solved_at, elapsed_s=elapsed_s, lr=args.learning_rate)
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
