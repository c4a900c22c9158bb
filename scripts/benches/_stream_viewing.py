"""Measures a viewer: the time to its first picture, and its processor time idle and watching."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psutil

from Daddy.core.clock import SystemClock
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.relay import make_relay
from Daddy.streaming.viewer.receiver import Receiver
from scripts.benches._stream_links import learner
from scripts.benches._stream_login import child, free_port, is_open, ours, wait_for
from scripts.benches._stream_watcher import AGENTS

JOINS, QUICK_JOINS = 10, 2
WATCH_S, QUICK_WATCH_S = 20.0, 3.0
SETTLE_S = 5.0
CROWD = 32


def first_picture(corpus: bytes, quick: bool) -> dict[str, float]:
    """Measure seconds from a proved token to the first picture, for viewers that join a job."""
    with tempfile.TemporaryDirectory(prefix="daddy-first-") as temporary:
        token, run = Path(temporary) / "token", Path(temporary) / "run"
        (run / "stream").mkdir(parents=True)
        ensure_token(token, "bench")
        with learner(run / "stream", corpus):
            waits = [_join(run, token) for _ in range(QUICK_JOINS if quick else JOINS)]
    return {"median_s": median(waits), "worst_s": max(waits)}


def _join(run: Path, token: Path) -> float:
    with relay_and_viewer(run, token) as receiver:
        wait_for(
            lambda: receiver.current_scene(AGENTS).connected, "no relay came to the bench's viewer"
        )
        began = time.monotonic()
        wait_for(
            lambda: receiver.current_scene(AGENTS).frames, "no picture came to the bench's viewer"
        )
        return time.monotonic() - began


@contextmanager
def relay_and_viewer(run: Path, token: Path) -> Iterator[Receiver]:
    """Run a relay of ``run`` that reads the spool, and yield its viewer."""
    clock, stop, wanted = SystemClock(), threading.Event(), Subscription(AGENTS, 15.0)
    with closing(Receiver(0, lambda: load_tokens([token]), wanted, clock)) as receiver:
        relay = make_relay(run, receiver.port, [token], wanted, "spool", clock)
        thread = threading.Thread(target=relay.serve_until, args=(stop,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            stop.set()
            thread.join(5)


def viewer_cpu(pictures: Sequence[bytes], quick: bool) -> dict[str, object]:
    """Measure the window's share of a core: waiting, and with two agents at 15 and at 30 fps while
    32 agents walk over known maps, as after the first minutes.
    """
    seconds = QUICK_WATCH_S if quick else WATCH_S
    with tempfile.TemporaryDirectory(prefix="daddy-cpu-") as temporary:
        folder = Path(temporary)
        token, corpus = folder / "token", folder / "corpus"
        ensure_token(token, "bench")
        corpus.write_bytes(b"".join(pictures))
        with _window(folder, token) as (port, pid, where):
            results: dict[str, object] = {"where": where, "idle": _share(pid, seconds)}
            for fps in (15.0, 30.0):
                straight = "scripts.benches._stream_relay_only"
                facts = (folder / "books", port, token, corpus, fps, CROWD)
                with ours(straight, *facts, home=folder, log=folder / "sender.log"):
                    time.sleep(SETTLE_S)
                    results[f"{AGENTS}x{fps:.0f}"] = _share(pid, seconds)
    return results


@contextmanager
def _window(folder: Path, token: Path) -> Iterator[tuple[int, int, str]]:
    """Run the real window on a virtual display, or on none if Xvfb is not installed."""
    port = free_port()
    show = ("--port", port, "--token", token, "--top-k", AGENTS)
    log = folder / "viewer.log"
    with (
        _display() as (environ, where),
        ours("Daddy.streaming.tunnel_server", *show, home=folder, log=log, **environ) as viewer,
    ):
        wait_for(lambda: is_open(port), "the window did not open")
        time.sleep(SETTLE_S)
        yield port, viewer.pid, where


@contextmanager
def _display() -> Iterator[tuple[dict[str, str], str]]:
    """Yield the environment for a display, and a description of it."""
    server = shutil.which("Xvfb")
    if server is None:
        yield {"SDL_VIDEODRIVER": "dummy"}, "no display"
        return
    reading, writing = os.pipe()
    options = ("-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp")
    with child([server, *options], pass_fds=(writing,)):
        os.close(writing)
        with os.fdopen(reading) as output:
            number = output.readline().strip()
        yield {"DISPLAY": f":{number}"}, "X11 in software"


def _share(pid: int, seconds: float) -> float:
    process, began = psutil.Process(pid), time.monotonic()
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float((sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began))
