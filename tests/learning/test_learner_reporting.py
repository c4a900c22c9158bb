"""Tests of the drawing of pictures: only requested pictures are drawn."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from Daddy.learning.cartpole import CartPole
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.learner_reporting import _write_episodes
from Daddy.learning.loop import train
from Daddy.learning.vector_serial import SerialVector
from tests.learning.helpers import SETTINGS, cartpole_parts
from tests.learning.test_loop import SHORT, Watcher, long_episode


class Drawing(CartPole):
    """A CartPole that counts its drawn pictures."""

    drawn = 0

    def picture(self) -> bytes:
        Drawing.drawn += 1
        return super().picture()


class Reticent(CartPole):
    """A CartPole whose telemetry is 0, and whose steps are told in an episode's summary only."""

    def telemetry(self) -> tuple[float, ...]:
        return 0.0, 0.0, 0.0

    def step(self, action: Any) -> Any:
        observation, reward, fell, late, _ = super().step(action)
        summary = {"summary": {"step": self._steps}} if fell or late else {}
        return observation, reward, fell, late, summary


def test_milestones_are_read_from_the_summaries_of_ended_episodes(tmp_path: Path) -> None:
    vector = SerialVector(Reticent, SETTINGS.num_envs)
    parts = cartpole_parts(tmp_path, vector=vector, schedule=SHORT, milestones_reached=long_episode)
    train(parts)
    told = {data["milestone"] for event, _, data in parts.events.rows if event == "progress"}
    assert "5 steps" in told


def test_a_picture_is_drawn_once_for_each_that_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Drawing, "drawn", 0)
    watcher, vector = Watcher(), SerialVector(Drawing, SETTINGS.num_envs)
    train(cartpole_parts(tmp_path, vector=vector, frames=watcher, schedule=SHORT))
    assert len(watcher.pictures) > 1
    assert Drawing.drawn in (len(watcher.pictures), len(watcher.pictures) + 1)


def test_episodes_tell_their_version_and_which_began_at_the_runs_own_start() -> None:
    told: list[dict[str, object]] = []
    ends = [EpisodeEnd(0, 1.0, 5, {"loaded": True}), EpisodeEnd(1, 2.0, 6, {"loaded": False}),
            EpisodeEnd(2, 3.0, 7)]  # fmt: skip
    learner = SimpleNamespace(
        rollout=SimpleNamespace(episodes=ends),
        counters=SimpleNamespace(env_steps=9),
        version=57,
        parts=SimpleNamespace(
            events=SimpleNamespace(write=lambda event, step, data: told.append(data))
        ),
    )
    _write_episodes(learner)  # type: ignore[arg-type]
    assert told[0]["version"] == 57
    assert told[0]["own_start"] == [0, 1, 1]
    assert told[0]["returns"] == [1.0, 2.0, 3.0]
