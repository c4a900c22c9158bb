"""Measures the age of a picture at the viewer over poor links, and after a viewer freezes.

A real ``ssh -R`` into a real sshd runs over the test cluster's shaped link; sender and viewer are
separate processes. Three senders are measured on each link: ``line`` (the relay's parts with the
pictures taken in the same process, so only the link is timed), ``direct`` and ``spool`` (a job, its
streamer and the relay as installed, where the relay can and cannot reach the job).
"""

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from Daddy.core.errors import SchedulerError
from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol.handshake import ensure_token
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches._stream_login import Line, Login, login_node, ours, tunnel, wait_for
from scripts.benches._stream_relay_only import split
from scripts.benches._stream_watcher import AGENTS, stamped

LINES = (Line(10, 30), Line(1, 80), Line(0.1, 150))
BOUND_TO = 2
"""The first links, on which the age is bounded; the last has no room for two agents at 30 fps."""
FPS = 30.0
WARM_S, SECONDS = 5.0, 20.0
QUICK_WARM_S, QUICK_SECONDS = 1.5, 4.0
FREEZE_S, AFTER_S = 6.0, 12.0
FRESH_S, IN_FLIGHT = 0.5, 64 * 1024
JOB = "direct"
"""The sender whose age is compared with the bound."""
_BENCHES = "scripts.benches."


@dataclass(frozen=True)
class Setup:
    """The setup of one run: sshd, a folder, the token and the corpus as a file."""

    login: Login
    folder: Path
    token: Path
    corpus: Path


def measure(pictures: Sequence[bytes], quick: bool) -> dict[str, object]:
    """Measure every sender on every link, then a viewer frozen for six seconds on the first."""
    warm, seconds = (QUICK_WARM_S, QUICK_SECONDS) if quick else (WARM_S, SECONDS)
    lines = LINES[:1] if quick else LINES
    with _place(pictures) as place:
        table = {str(line): _on(place, line, warm, seconds, quick) for line in lines}
        return {"lines": table, "frozen": _frozen(place, LINES[0], warm, quick)}


@contextmanager
def _place(pictures: Sequence[bytes]) -> Iterator[Setup]:
    with tempfile.TemporaryDirectory(prefix="daddy-links-") as temporary:
        folder = Path(temporary)
        token, corpus = folder / "token", folder / "corpus"
        ensure_token(token, "bench")
        corpus.write_bytes(b"".join(pictures))
        with login_node(folder / "login") as login:
            yield Setup(login, folder, token, corpus)


def bound_s(line: Line) -> float:
    """Return the allowed age of a picture at display: half a round trip, two periods, 20 ms."""
    return line.rtt_ms / 2000 + 2 / FPS + 0.020


def _on(place: Setup, line: Line, warm: float, seconds: float, quick: bool) -> dict[str, object]:
    rows: dict[str, Any] = {"bound_s": bound_s(line), "bound_asked": line in LINES[:BOUND_TO]}
    for sender in (JOB,) if quick else ("line", JOB, "spool"):
        print(f"  {line}: {sender}", flush=True)
        seen, _, _ = _run(place, line, sender, warm, seconds)
        rows[sender] = figures(seen)
    rows["within_bound"] = (rows[JOB]["age_p95_s"] or np.inf) <= rows["bound_s"]
    return rows


def figures(seen: dict[str, Any]) -> dict[str, float | None]:
    """Return the rates and ages of a viewer's pictures; no age if it saw none."""
    ages = [age for _, _, age in seen["shown"]]
    p50, p95 = np.percentile(ages, (50, 95)) if ages else (None, None)
    return {
        "frames_per_s_and_agent": seen["frames"] / seen["seconds"] / AGENTS,
        "shown_per_s_and_agent": len(ages) / seen["seconds"] / AGENTS,
        "age_p50_s": None if p50 is None else float(p50),
        "age_p95_s": None if p95 is None else float(p95),
        "kbit_per_s": seen["bytes"] * 8 / 1000 / seen["seconds"],
    }


def _frozen(place: Setup, line: Line, warm: float, quick: bool) -> dict[str, object]:
    """Freeze the viewer for six seconds; return the bytes in flight and the time until fresh."""
    print(f"  {line}: frozen {FREEZE_S:g} s", flush=True)
    span = FREEZE_S + (3.0 if quick else AFTER_S)
    seen, books, frozen = _run(place, line, "line", warm, span, freeze=True)
    assert books is not None
    return {
        "on": str(line),
        "seconds": FREEZE_S,
        "line": {
            "fresh_after_s": fresh_after(seen["shown"], frozen[1], bound_s(line)),
            "in_flight_bytes": books["in_flight"],
        },
    }


def fresh_after(shown: Sequence[Sequence[Any]], since: float, bound: float) -> float | None:
    """Return the seconds until every agent's picture is within its bound; None if that is never."""
    first: dict[str, float] = {}
    for at, agent, age in shown:
        if at >= since and age <= bound:
            first.setdefault(agent, at - since)
    return max(first.values()) if len(first) == AGENTS else None


def _run(
    place: Setup, line: Line, kind: str, warm: float, seconds: float, *, freeze: bool = False
) -> tuple[dict[str, Any], dict[str, Any] | None, tuple[float, float]]:
    """Run one sender over one link; return what the viewer saw, the sender's counts, the freeze."""
    with tempfile.TemporaryDirectory(dir=place.folder) as temporary:
        folder = Path(temporary)
        seen, books, frozen = folder / "seen", folder / "books", (0.0, 0.0)
        show = (seen, place.token, FPS, warm, seconds)
        log = folder / "viewer.log"
        with ours(f"{_BENCHES}_stream_watcher", *show, home=folder, log=log) as viewer:
            port = _port(seen, viewer)
            with (
                tunnel(place.login, line, port) as (remote, _),
                _sender(place, folder, kind, remote, books),
            ):
                if freeze:
                    frozen = _freeze(viewer, warm)
                _wait(viewer, seconds + warm + 90, log)
        counts = json.loads(books.read_text()) if books.exists() else None
        return json.loads(seen.read_text()), counts, frozen


def _port(seen: Path, viewer: subprocess.Popen[bytes]) -> int:
    file = seen.with_suffix(".port")
    wait_for(lambda: viewer.poll() is not None or (file.exists() and file.read_text()),
             "the bench's viewer did not start")  # fmt: skip
    return int(file.read_text())


def _wait(viewer: subprocess.Popen[bytes], seconds: float, log: Path) -> None:
    try:
        if viewer.wait(seconds) == 0:
            return
    except subprocess.TimeoutExpired:
        pass
    raise SchedulerError(f"the bench's viewer failed: {log.read_text()[-2000:]}")


def _freeze(viewer: subprocess.Popen[bytes], warm: float) -> tuple[float, float]:
    time.sleep(warm + 3.0)
    began = time.monotonic()
    viewer.send_signal(signal.SIGSTOP)
    try:
        time.sleep(FREEZE_S)
    finally:
        viewer.send_signal(signal.SIGCONT)
    return began, time.monotonic()


@contextmanager
def _sender(place: Setup, folder: Path, kind: str, remote: int, books: Path) -> Iterator[None]:
    log = folder / "sender.log"
    sender: tuple[object, ...]
    if kind == "line":
        straight = f"{_BENCHES}_stream_straight"
        sender = (straight, books, remote, place.token, place.corpus, FPS)
    else:
        run = folder / "run"
        (run / "stream").mkdir(parents=True)
        relay = ("--run-dir", run, "--port", remote, "--token", place.token, "--fps", FPS)
        sender = ("Daddy.streaming.relay", *relay)
    with ours(str(sender[0]), *sender[1:], home=folder, log=log):
        if kind in (JOB, "spool"):
            stream, corpus = folder / "run" / "stream", place.corpus.read_bytes()
            with learner(stream, corpus, direct=kind == JOB):
                yield
        else:
            yield


@contextmanager
def learner(stream: Path, corpus: bytes, *, direct: bool = False) -> Iterator[FrameSender]:
    """Run a job's side in a thread: 60 steps a second, with pictures of the wanted agents."""
    pictures, stop = split(corpus), threading.Event()

    def play(sender: FrameSender) -> None:
        step = 0
        while not stop.wait(1 / 60):
            step += 1
            sender.send_reports(
                [AgentReport(agent, 0, 0, 0.0, 0, 0, "nowhere", 5, step) for agent in range(AGENTS)]
            )
            for agent in sender.wanted_agents():
                picture = pictures[(step + 40 * agent) % len(pictures)]
                sender.send_picture(agent, stamped(picture, time.monotonic()))

    with FrameSender(stream, "slot-0", direct=direct) as sender:
        thread = threading.Thread(target=play, args=(sender,), daemon=True)
        thread.start()
        try:
            yield sender
        finally:
            stop.set()
            thread.join(5)
