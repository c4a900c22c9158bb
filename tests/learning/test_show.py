"""What a picture costs those who train: nothing is drawn that is not due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.learning.cartpole import CartPole
from Daddy.learning.loop import train
from Daddy.learning.vector_threads import SerialVector
from tests.learning.helpers import SETTINGS, cartpole_parts
from tests.learning.test_loop import SHORT, Watcher


class Drawing(CartPole):
    """Counts its pictures."""

    drawn = 0

    def picture(self) -> bytes:
        Drawing.drawn += 1
        return super().picture()


def test_a_picture_is_drawn_once_for_each_that_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Drawing, "drawn", 0)
    watcher, vector = Watcher(), SerialVector(Drawing, SETTINGS.num_envs)
    pace = replace(SHORT, frame_seconds=0.02)
    train(cartpole_parts(tmp_path, vector=vector, frames=watcher, pace=pace))
    assert len(watcher.pictures) > 1
    assert Drawing.drawn in (len(watcher.pictures), len(watcher.pictures) + 1)


class Taped(CartPole):
    """Gives a piece at every step, while one is wanted."""

    def tape(self, wanted: bool) -> bytes:
        return b"a piece" if wanted else b""


class Taping(Watcher):
    """Wants what the first environment plays."""

    def __init__(self) -> None:
        super().__init__()
        self.played: list[tuple[int, bytes]] = []

    def taped(self) -> frozenset[int]:
        return frozenset({0})

    def play(self, agent: int, piece: bytes) -> None:
        self.played.append((agent, piece))


def test_what_is_played_is_handed_on_at_every_step_and_nobody_elses(tmp_path: Path) -> None:
    sink, vector = Taping(), SerialVector(Taped, SETTINGS.num_envs)
    outcome = train(cartpole_parts(tmp_path, vector=vector, frames=sink, pace=SHORT))
    assert set(sink.played) == {(0, b"a piece")}
    assert len(sink.played) >= outcome.step / SETTINGS.num_envs - 2
