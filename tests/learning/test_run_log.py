"""What a picture costs those who train: nothing is drawn that is not due."""

from __future__ import annotations

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
    train(cartpole_parts(tmp_path, vector=vector, frames=watcher, pace=SHORT))
    assert len(watcher.pictures) > 1
    assert Drawing.drawn in (len(watcher.pictures), len(watcher.pictures) + 1)
