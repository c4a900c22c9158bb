"""From a learner's emulator through a real relay to one beside the viewer: the same game."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from Daddy.core import booth
from Daddy.core.booth import Shown, Verdict, Word
from Daddy.core.clock import SystemClock
from Daddy.core.piece import Piece, read_piece
from Daddy.core.rom import Rom, load_rom
from Daddy.learning.vector_threads import SerialVector
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.inputs import stretch
from Daddy.pokemon.live.judge import Judge
from Daddy.pokemon.live.lane import Lane, Outlet
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.recordings import feed
from Daddy.pokemon.rom import cartridge_path
from Daddy.pokemon.starts.boot import start_state
from Daddy.streaming.home import stage
from Daddy.streaming.home.receiver import Receiver
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.wire.messages import Wish
from Daddy.streaming.wire.tokens import ensure_token, load_tokens
from tests.patience import until
from tests.streaming.helpers import finish, report, start

STEPS = 40
PROOF_STEPS = 30
"""Enough to tell that it is made and compared; a real one takes seconds in each process."""


@pytest.fixture(scope="module")
def rom() -> Rom:
    """The cartridge, what its start is called and its emulator's proof made already."""
    found = load_rom(cartridge_path())
    feed.beginning(found, start_state(found), "", "", "", steps=PROOF_STEPS)
    return found


class Game:
    """One real environment in a vector; remembers the picture at each step of each game."""

    def __init__(self) -> None:
        self.vector = SerialVector(lambda: PokemonRedEnv(cartridge_path(), episode_steps=STEPS), 1)
        self.pictures: dict[tuple[int, int], bytes] = {}
        """(which load it was, frames since then) to the picture."""
        self._dice = np.random.default_rng(3)
        self._env = self.vector._envs[0]._env.unwrapped
        emulator, where = self._env._emulator, self._env._feed._where
        self._env._feed = feed.Feed(
            emulator, self._env.rom, self._env._start, *where, steps=PROOF_STEPS
        )
        self._listen(self._env._emulator)
        self.vector.reset([5])

    def _listen(self, emulator: object) -> None:
        tell, load = emulator._tell, emulator.load_state  # type: ignore[attr-defined]
        self.loads = self.frames = 0

        def told(operation: bytes, frames: int) -> None:
            self.frames += frames
            tell(operation, frames)

        def loaded(state: bytes) -> int:
            self.loads, self.frames = self.loads + 1, 0
            return int(load(state))

        emulator._tell, emulator.load_state = told, loaded  # type: ignore[attr-defined]

    def step(self) -> bytes:
        """A random key; the piece that the step gave, if any."""
        before = self.loads
        self.vector.step(self._dice.integers(0, 7, 1))
        if self.loads == before:
            self.pictures[self.loads, self.frames] = self._env.picture()
        return self.vector.pieces(slice(0, 1)).get(0, b"")

    def pieces(self, count: int) -> list[Piece]:
        """The next so many."""
        self.vector.tape(frozenset({0}))
        found: list[Piece] = []
        while len(found) < count:
            if piece := self.step():
                found.append(read_piece(piece))
        return found

    def agrees(self, shown: list[Shown]) -> int:
        """How many of the frames are steps of one and the same game, pixel for pixel."""
        seen = {one.frames: one.pixels for one in shown if one.chain == shown[0].chain}
        best = 0
        for load in {load for load, _ in self.pictures}:
            steps = {
                at: one for (of, at), one in self.pictures.items() if of == load and at in seen
            }
            if all(seen[at] == one for at, one in steps.items()):
                best = max(best, len(set(steps.values())))
        return best


class Quick(SystemClock):
    """Time that passes, and nobody who waits for it: a minute of the game is soon played."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return super().wait(stop, min(seconds, 0.001))


class Ends:
    """What a lane says and shows."""

    def __init__(self, rom: Rom) -> None:
        self.said: list[Verdict | Shown] = []
        outlet = Outlet(self.said.append, self.said.append)
        self.lane = Lane(Judge(rom, PROOF_STEPS), outlet, Quick(), Vigil())

    @property
    def verdicts(self) -> list[Verdict]:
        return [one for one in list(self.said) if isinstance(one, Verdict)]

    @property
    def shown(self) -> list[Shown]:
        return [one for one in list(self.said) if isinstance(one, Shown)]

    def hear(self, pieces: list[Piece]) -> None:
        now = SystemClock().monotonic()
        for piece in pieces:
            self.lane.hear(now, piece)


def test_frames_are_the_learners_own_and_a_digest_that_differs_ends_in_pictures(rom: Rom) -> None:
    game, ends = Game(), Ends(rom)
    try:
        pieces = game.pieces(4)
        ends.hear(pieces[:3])
        assert until(lambda: len({one.frames for one in ends.shown}) > STEPS * 20)
        assert game.agrees(ends.shown) > STEPS / 4
        ends.lane.seek(-300)
        assert until(lambda: any(a.frames > b.frames for a, b in pairwise(list(ends.shown))))
        back = next(b.frames for a, b in pairwise(ends.shown) if a.frames > b.frames)
        assert 1 < back <= ends.shown[-1].frames
        bad = Piece(pieces[3].chain, pieces[3].index, _otherwise(pieces[3].data))
        ends.hear([bad])
        assert until(lambda: ends.verdicts[-1].pictures and "another way" in ends.verdicts[-1].said)
        assert {one.chain for one in ends.shown} == {pieces[0].chain}
        first = next(at for at, one in enumerate(ends.said) if isinstance(one, Shown))
        assert isinstance(ends.said[0], Verdict)  # whatever the relay thought of an earlier viewer
        assert all(one.pictures for one in ends.said[:first] if isinstance(one, Verdict))
    finally:
        ends.lane.close()
        assert until(lambda: ends.lane.is_over)
        game.vector.close()


def _otherwise(data: bytes) -> bytes:
    """The stretch with one key pressed otherwise."""
    one = stretch.read(data)
    at = next(at for at in range(len(one.operations) // 2, len(one.operations)))
    done = one.operations[:at] + bytes([(one.operations[at] + 1) % 7]) + one.operations[at + 1 :]
    return stretch.pack(done, one.digest)


@pytest.mark.parametrize(
    ("change", "said", "never"),
    [
        ({"rom_sha1": "0" * 40}, "the game here is", True),
        ({"pyboy": "1.0.0"}, "they play with pyboy 1.0.0", True),
        ({"proof": "0" * 16}, "30 steps otherwise", True),
        ({"moment": "0" * 64}, "another moment", False),
        ({"start": ""}, "only the learner has", False),
        ({"start": "nowhere"}, "cannot be made here", False),
    ],
)
def test_another_game_another_emulator_and_an_unknown_moment_are_no_beginning(
    rom: Rom, change: dict[str, str], said: str, never: bool
) -> None:
    ours = feed.beginning(rom, start_state(rom), "", "", "", steps=PROOF_STEPS)
    judge = Judge(rom, PROOF_STEPS)
    found = judge.hear(replace(ours, **change))
    assert said in found.reason
    assert found.never is never
    assert judge.hear(ours).reason == ""


def test_a_learners_play_is_played_again_beside_the_viewer(rom: Rom, tmp_path: Path) -> None:
    run, token = tmp_path / "run", tmp_path / "token"
    (run / "stream").mkdir(parents=True)
    ensure_token(token, "test")
    shown: list[Shown] = []
    clock, stop, game = SystemClock(), threading.Event(), Game()
    player = [*stage.command(None), "--proof-steps", str(PROOF_STEPS)]
    receiver = Receiver(0, lambda: load_tokens([token]), Wish(1, 15.0), clock, player)
    sender = FrameSender(run / "stream", "slot-0", job="17", host="node1")

    def play() -> None:
        step = 0
        while not clock.wait(stop, 0.01):
            step += 1
            game.vector.tape(sender.taped())
            game.vector.watch(sender.wanted())
            if piece := game.step():
                sender.play(0, piece)
            sender.report([report(0, step=step)])
            for agent, picture in game.vector.frames().items():
                sender.offer(agent, picture)

    def spy(word: Word) -> None:
        if word.kind == booth.Kind.SHOWN:
            shown.append(booth.read_shown(word.body))
        heard(word)

    beside = receiver._stage
    assert beside
    heard, beside._heard = beside._heard, spy
    learner = threading.Thread(target=play, daemon=True)
    learner.start()
    args = ("--run-dir", run, "--port", receiver.port, "--token", token, "--via", "spool")
    relay = start("Daddy.streaming.relay", *args, home=tmp_path)
    try:
        assert until(lambda: len(shown) > 240, 40)
        (panel,) = receiver.scene(1).panels
        assert panel.replayed
        assert game.agrees(shown) >= 2
        sent = receiver._connections[0].source.streams[panel.row.stream].frames  # type: ignore[union-attr]
        assert until(lambda: len(shown) > 300)
        assert receiver._connections[0].source.streams[panel.row.stream].frames == sent  # type: ignore[union-attr]
    finally:
        stop.set()
        learner.join(5)
        receiver.close()
        sender.close()
        game.vector.close()
        finish(relay)


def test_a_game_that_is_none_leaves_pictures_and_says_why(tmp_path: Path) -> None:
    """The emulator beside the viewer cannot even begin."""
    said: list[str] = []
    ended = stage.Stage(stage.command(str(tmp_path / "no.gb")), lambda _: None, said.append)
    ended.say(booth.piece(1, 0.0, Piece(1, 0, b"{}")))
    try:
        assert until(lambda: said)
        assert "no.gb" in said[0]
    finally:
        ended.close()


def test_what_cannot_begin_or_does_not_read_ends_in_pictures_and_closing_takes_no_time() -> None:
    said: list[str] = []
    word = booth.piece(1, 0.0, Piece(1, 1, bytes(2_000)))
    missing = stage.Stage(["/nowhere/at/all"], lambda _: None, said.append)
    missing.say(word)
    assert until(lambda: said)
    assert "not installed" in said.pop()
    deaf = [sys.executable, "-c", "import time; time.sleep(600)"]
    full, idle = (stage.Stage(deaf, lambda _: None, said.append) for _ in range(2))
    idle.say(word)
    for _ in range(2_000):
        full.say(word)
    assert until(lambda: said)
    assert "does not read" in said.pop()
    full.say(Word(booth.Kind.LEAVE, 1))  # lost, as all is: nothing begins anew
    idle.close()
    assert not idle._thread.is_alive()
    assert not said
