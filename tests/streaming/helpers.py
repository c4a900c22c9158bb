"""Pictures, sessions and processes for the stream's tests."""

import functools
import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.streaming.protocol.handshake import RELAY, VIEWER, StreamSession, Token
from Daddy.streaming.protocol.spool_segment import (
    CapturedPicture,
    FramePacker,
    WriterIdentity,
    pack_file,
    pack_head,
    pack_reports,
)
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
TOKEN = Token(bytes(range(32)))
OTHER = Token(bytes(range(1, 33)))


@functools.lru_cache(maxsize=256)
def picture(seed: int) -> bytes:
    """Return a picture of tiles, similar to the game's."""
    chance = random.Random(seed)
    tiles = [bytes(chance.choices((0, 0x55, 0xAA, 0xFF, 0x1B), k=16)) for _ in range(8)]
    rows = []
    for _ in range(18):
        band = [chance.choice(tiles) for _ in range(20)]
        rows += [b"".join(tile[2 * y : 2 * y + 2] for tile in band) for y in range(8)]
    made = b"".join(rows)
    assert len(made) == SCREEN_BYTES
    return made


def report(agent: int = 0, **changes: object) -> AgentReport:
    facts = {
        "agent": agent,
        "badges": 0,
        "story_flags": 0,
        "episode_return": 0.0,
        "episode": 0,
        "map_id": 1,
        "map_name": "Fern Hollow",
        "level": 5,
        "step": 100,
    }
    return AgentReport(**{**facts, **changes})  # type: ignore[arg-type]


def shake(relay: StreamSession, viewer: StreamSession) -> None:
    """Carry bytes between both sessions until neither sends more."""
    for _ in range(6):
        viewer.receive(relay.take_output())
        relay.receive(viewer.take_output())


def introduced(token: Token = TOKEN) -> tuple[StreamSession, StreamSession]:
    """Return an established session of a relay and of a viewer."""
    relay, viewer = (
        StreamSession(RELAY, [token], b"r" * 16),
        StreamSession(VIEWER, [token], b"v" * 16),
    )
    shake(relay, viewer)
    assert relay.established
    assert viewer.established
    return relay, viewer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    module: str, *args: object, home: Path, cwd: Path | None = None, **env: str
) -> subprocess.Popen[str]:
    """Start a module of this project as a process with a home of its own."""
    full = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        **env,
    }
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, args)],
        cwd=cwd,
        env=full,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """End a process with SIGTERM and return its output."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def pack_segment(
    sequence: int,
    writer: WriterIdentity,
    sent_ms: int,
    reports: Sequence[AgentReport],
    pictures: Sequence[CapturedPicture],
) -> bytes:
    """Return a segment of at most ``SEGMENT_LIMIT`` bytes, without pictures that do not fit."""
    head, packer = pack_head(pack_reports(writer, reports), sent_ms), FramePacker()
    frames = [message for p in pictures if (message := packer.pack_frame(p)) is not None]
    return pack_file(sequence, [*head, *frames])
