"""What it costs to play an agent's inputs at home instead of sending pictures, and how that looks.

Bytes are those of the wire: OFFER, PLAY and the WANT that answers it, with headers and MACs, over
the seconds of the game that they show. Then a learner that plays as fast as it can, a real relay,
``ssh -R`` over the poorest line and the shipped viewer without a window, each a process of its own.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from Daddy.core.errors import SchedulerError
from Daddy.core.piece import Piece, read_piece
from Daddy.core.rom import load_rom
from Daddy.pokemon.emulator import BUTTONS, FRAMES_PER_SECOND, FRAMES_PER_STEP, Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.inputs import operations, stretch
from Daddy.pokemon.inputs.live import LiveRecorder
from Daddy.pokemon.ram_map import RAM_START, WHOLE
from Daddy.pokemon.recordings import feed
from Daddy.pokemon.rom import cartridge_path
from Daddy.pokemon.starts.boot import start_state
from Daddy.streaming.wire.inputs import Inputs, Want
from Daddy.streaming.wire.outbox import Handed
from Daddy.streaming.wire.protocol import MAC_BYTES, Kind, Message, pack
from Daddy.streaming.wire.tokens import ensure_token
from scripts.benches._stream_login import Line, free_port, login_node, ours, tunnel
from scripts.cartridge.player import Player, read_facts

LINE = Line(0.1, 150)
STEPS, QUICK_STEPS = 6_000, 1_200
COUNTED_STEPS = 51_200
SHOWN_S, QUICK_SHOWN_S = 60.0, 15.0
_UP_S = 240.0


def measure(quick: bool) -> dict[str, Any]:
    """Bytes a second of the game, what taping costs a step, and the poorest line."""
    rom = load_rom(cartridge_path())
    feed.beginning(rom, start_state(rom), "", "", "")
    steps = QUICK_STEPS if quick else STEPS
    return {
        "bytes_per_s": _weigh(list(_played(steps, scripted=True))),
        "bytes_per_s_of_random_keys": _weigh(list(_played(steps, scripted=False))),
        "taping": _cost(),
        "line": _on_a_line(QUICK_SHOWN_S if quick else SHOWN_S),
    }


def _played(steps: int, *, scripted: bool) -> Iterator[Piece]:
    """The pieces of an episode as a learner hands them on."""
    env = PokemonRedEnv(cartridge_path(), episode_steps=steps + 1)
    try:
        env.reset(seed=1)
        while env._feed._recorder is None:  # noqa: SLF001 - its name is being made
            env.tape(True)
            time.sleep(0.01)
        env.tape(True)
        env.reset(seed=1)
        env.action_space.seed(1)
        player = Player(env.rom.data)
        for _ in range(steps):
            image = env.progress.image
            facts = read_facts(lambda address, image=image: image[address - RAM_START])  # type: ignore[misc]
            key = (
                BUTTONS.index(player.next_button(facts)) if scripted else env.action_space.sample()
            )
            env.step(key)
            if piece := env.tape(True):
                yield read_piece(piece)
    finally:
        env.close()


def _weigh(pieces: list[Piece]) -> float:
    """Bytes of all messages both ways over the seconds that they show."""
    inputs, size, frames = Inputs(), 0, 0
    inputs.absorb((Handed(0, 0, one.pack()) for one in pieces), "bench")
    offers = inputs.messages(1, 1 << 20)
    inputs.hear(Want(1, 0, inputs=True, pictures=False))
    for message in [*offers, *inputs.messages(1, 1 << 20)]:
        size += len(pack(message)) + MAC_BYTES
        answer = Message(Kind.WANT, Want(1, 1, inputs=True, pictures=False).pack(), stream=1)
        size += len(pack(answer)) + MAC_BYTES
    frames = sum(stretch.read(one.data).frames for one in pieces if one.index)
    return size / (frames / FRAMES_PER_SECOND)


def _cost() -> dict[str, float]:
    """Microseconds of a step that are taping's: recorded, digested, packed; and when unwanted."""
    rom = load_rom(cartridge_path())
    emulator = Emulator(rom.data)
    try:
        start = emulator.save_state()
        recorder = LiveRecorder(start, feed.beginning(rom, start_state(rom), "", "", ""))
        recorder.loads(start, bytes)
        unwanted = feed.Feed(emulator, rom, start)
        return {
            "taped_us": _us(lambda: _tape(recorder, emulator)),
            "unwanted_us": _us(lambda: unwanted.take(False)),
        }
    finally:
        emulator.close()


def _tape(recorder: LiveRecorder, emulator: Emulator) -> None:
    recorder.add(operations.press(1), FRAMES_PER_STEP, lambda: emulator.ram(WHOLE))
    recorder.take()


def _us(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(COUNTED_STEPS):
        call()
    return (time.process_time() - began) / COUNTED_STEPS * 1e6


def _on_a_line(seconds: float) -> dict[str, float | str]:
    """The shipped viewer at the end of the poorest line: frames a second shown, and how old."""
    with tempfile.TemporaryDirectory(prefix="daddy-replay-") as temporary:
        folder = Path(temporary)
        token, run, log = folder / "token", folder / "run", folder / "viewer.log"
        (run / "stream").mkdir(parents=True)
        ensure_token(token, "bench")
        viewer = ("--port", free_port(), "--json", "--inputs", "--top-k", 2, "--token", token)
        relay = ("--run-dir", run, "--token", token, "--fps", 15)
        with (
            login_node(folder / "login") as login,
            ours("Daddy.streaming.tunnel_server", *viewer, home=folder, log=log),
            tunnel(login, LINE, int(viewer[1])) as (remote, _),
            ours("scripts.benches._stream_replay_learner", run / "stream", home=folder,
                 log=folder / "learner.log"),
            ours("Daddy.streaming.relay", *relay, "--port", remote, home=folder,
                 log=folder / "relay.log"),
        ):  # fmt: skip
            _await(log)
            time.sleep(seconds)
            return {"line": str(LINE), **_figures(_lines(log, "inputs")), **_before(log)}


def _await(log: Path) -> None:
    """Two proofs, and the next episode's beginning."""
    until = time.monotonic() + _UP_S
    while not _lines(log, "inputs"):
        if time.monotonic() > until:
            raise SchedulerError(f"no inputs came: {log.read_text()[-2000:]}")
        time.sleep(1)


def _lines(log: Path, how: str) -> list[dict[str, Any]]:
    """What the viewer said of agents shown this way."""
    lines = [one for one in log.read_text().splitlines() if one.startswith("{")]
    told = [json.loads(one) for one in lines]
    return [one for one in told if one["what"] == "agent" and one["from"] == how]


def _figures(told: list[dict[str, Any]]) -> dict[str, float]:
    """After each agent's first two seconds: frames a second and the lag."""
    shown = [one for one in told if one["age_s"] > 0][4:]
    return {
        "frames_per_s_and_agent_p50": median(one["frames"] for one in shown),
        "frames_per_s_and_agent_p05": sorted(one["frames"] for one in shown)[len(shown) // 20],
        "lag_s_first": shown[0]["age_s"],
        "lag_s_last": shown[-1]["age_s"],
        "seconds": len({round(one["time"]) for one in shown}),
    }


def _before(log: Path) -> dict[str, float]:
    """Frames a second by pictures on the same line, until inputs were there."""
    told = [one["frames"] for one in _lines(log, "pictures") if one["frames"]]
    return {"pictures_per_s_and_agent": median(told) if told else 0.0}
