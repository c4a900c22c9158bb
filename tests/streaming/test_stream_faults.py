"""Faults of the stream with real processes: frozen, killed, replaced, and clocks that differ."""

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import host_name
from Daddy.streaming.learner.shared_ring import LearnerEnd, StreamerEnd, nameless_file
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.protocol.spool_segment import CapturedPicture, WriterIdentity
from Daddy.streaming.streamer import Streamer
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import finish, free_port, picture, report, start
from tests.streaming.test_relay_to_viewer import learners, relay

VIEWER, RELAY = "Daddy.streaming.tunnel_server", "Daddy.streaming.relay"


@contextmanager
def relay_process(run: Path, port: int, token: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    child = start(RELAY, "--run-dir", run, "--port", port, "--token", token, home=home)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGCONT)
        finish(child)


def frames(viewer: Receiver) -> int:
    return sum(viewer.current_scene(16).frames.values())


def more(viewer: Receiver, count: int = 10) -> bool:
    before = frames(viewer)
    return until(lambda: frames(viewer) >= before + count, 25)


def test_a_frozen_viewer_shows_the_newest_afterwards_and_nothing_again(
    run: Path, token: Path, tmp_path: Path
) -> None:
    """A dragged window or a stopped process: at most one window of pictures waits."""
    port = free_port()
    child = start(VIEWER, "--port", port, "--json", "--token", token, home=tmp_path)
    lines: queue.Queue[dict] = queue.Queue()
    threading.Thread(target=_read_lines, args=(child, lines), daemon=True).start()
    try:
        with learners(run / "stream"), relay_process(run, port, token, tmp_path):
            before = _line(lines)
            child.send_signal(signal.SIGSTOP)
            threading.Event().wait(3.0)
            child.send_signal(signal.SIGCONT)
            while _line(lines)["step"] < before["step"] + 60:
                pass
            after = _line(lines)
    finally:
        child.send_signal(signal.SIGCONT)
        finish(child)
    assert after["frames"] <= 50, "three seconds of play are not played again"
    assert not after["stale"]


def _read_lines(child: subprocess.Popen[str], lines: queue.Queue[dict]) -> None:
    assert child.stdout
    for text in child.stdout:
        lines.put(json.loads(text))


def _line(lines: queue.Queue[dict]) -> dict:
    """Return the next line with pictures."""
    while True:
        line = lines.get(timeout=PATIENCE_S)
        if line["what"] == "agent" and line["frames"]:
            return line


def test_a_killed_relay_is_missed_and_its_successor_is_shown(
    run: Path, token: Path, viewer: Receiver, tmp_path: Path
) -> None:
    with learners(run / "stream") as playing:
        with relay_process(run, viewer.port, token, tmp_path) as child:
            assert more(viewer)
            child.kill()
            assert until(lambda: not viewer.current_scene(2).connected, 10)
            assert all(learner.thread.is_alive() for learner in playing)
        with relay_process(run, viewer.port, token, tmp_path):
            assert more(viewer)


def test_more_and_fewer_agents_while_watching(run: Path, token: Path, viewer: Receiver) -> None:
    with learners(run / "stream") as playing, relay(run, viewer.port, token):
        for top_k in (1, 4, 2):
            viewer.subscribe(Subscription(top_k, 60.0))
            assert until(lambda k=top_k: len(shown(viewer)) == k, 25)
            assert until(lambda k=top_k: wanted(playing) == k, 25), "the others are not made"


def shown(viewer: Receiver) -> list[str]:
    panels = viewer.current_scene(16).panels
    return [panel.name for panel in panels if panel.pixels and panel.row.place]


def wanted(playing: list) -> int:
    return sum(len(learner.sender.wanted_agents()) for learner in playing)


def test_a_slot_whose_job_changes_keeps_its_agents(
    run: Path, token: Path, viewer: Receiver
) -> None:
    """At the wall time's end the successor writes under the same name, from another host."""
    with relay(run, viewer.port, token):
        for job, host in (("17", "node1"), ("18", "node2")):
            with FrameSender(run / "stream", "slot-0", job=job, host=host) as sender:
                stop = threading.Event()
                thread = threading.Thread(target=play, args=(sender, stop), daemon=True)
                thread.start()
                try:
                    assert until(lambda j=job: jobs(viewer) == {j}, 25)
                    assert more(viewer, 5)
                    assert [panel.name for panel in viewer.current_scene(2).panels] == [
                        "slot-0/0",
                        "slot-0/1",
                    ]
                    assert viewer.current_scene(2).panels[0].peer.host == host
                finally:
                    stop.set()
                    thread.join(5)


def play(sender: FrameSender, stop: threading.Event) -> None:
    step = 0
    while not stop.wait(1 / 30):
        step += 1
        sender.send_reports([report(agent, badges=3 - agent, step=step) for agent in (0, 1)])
        for agent in sender.wanted_agents():
            sender.send_picture(agent, picture(step % 40))


def jobs(viewer: Receiver) -> set[str]:
    return {panel.peer.job for panel in viewer.current_scene(2).panels}


class Skewed(SystemClock):
    """A machine whose wall clock is seven hours slow and whose uptime is long."""

    def now(self) -> float:
        return super().now() - 7 * 3600

    def monotonic(self) -> float:
        return super().monotonic() + 9 * 3600


def test_clocks_that_are_hours_apart_change_nothing(
    run: Path, token: Path, viewer: Receiver
) -> None:
    stop = threading.Event()
    job = threading.Thread(target=skewed_job, args=(run / "stream", stop), daemon=True)
    job.start()
    try:
        with relay(run, viewer.port, token):
            assert more(viewer, 20)
            assert until(lambda: all(0 < p.age_s < 60 for p in viewer.current_scene(2).panels), 10)
    finally:
        stop.set()
        job.join(5)


def skewed_job(stream: Path, stop: threading.Event) -> None:
    """Run a learner's memory and its streamer on another machine's clock."""
    file, clock, step = nameless_file(), Skewed(), 0
    learner, who = LearnerEnd(file), WriterIdentity("slot-0", host_name(), "17", "0" * 8)
    streamer = Streamer(StreamerEnd(file), stream, who, clock, 30.0, direct=True)
    os.close(file)
    while not stop.wait(1 / 30):
        step += 1
        learner.write_reports([report(0, step=step)])
        for agent in learner.wanted_agents():
            now_ms = round(clock.monotonic() * 1000)
            learner.write_picture(CapturedPicture(agent, step, 0, now_ms, picture(step % 40)))
        streamer.step()
    streamer.port.close()
    learner.close()
