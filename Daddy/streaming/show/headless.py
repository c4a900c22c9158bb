"""The viewer without a window: lines for a person, JSON for a script, or neither beside a page."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from enum import Enum

from Daddy.core.clock import Clock
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.streaming.home.receiver import Receiver
from Daddy.streaming.home.scene import Panel, Scene
from Daddy.streaming.home.ways import KNOCK_S, usual_causes
from Daddy.streaming.show.lines import agent_line, waiting_line
from Daddy.streaming.show.window import Waiting
from Daddy.streaming.wire.auth import copy_line


class Form(Enum):
    """What is printed."""

    NONE, WORDS, JSON = range(3)


def line(panel: Panel, frames: int) -> str:
    """One agent as one line of text."""
    row = panel.row
    state = f"{frames:2d} frames" if not panel.stale else f"stale {panel.silent_s:.0f} s"
    return (
        f"{panel.name:<12} score {row.score:3d} = {row.badges} badges + {row.story_flags} flags  "
        f"{panel.map_name:<18} L{row.level:<3d} return {row.episode_return:8.1f}  "
        f"step {row.step:9,d}  {state}  {panel.bytes_per_frame:4.0f} B/frame  "
        f"age {panel.age_s:4.1f} s  "
        f"{panel.peer.host} job {panel.peer.job or '-'}"
    )


def waiting_lines(waiting: Waiting, scene: Scene) -> list[str]:
    """What a person without a picture needs to know, with the lines to copy."""
    trouble = scene.trouble
    if scene.carrier:  # it opens the tunnel itself, and says how that goes
        return [f"last trouble: {trouble}"] * bool(trouble)
    lines = [f"waiting for the tunnel on 127.0.0.1:{waiting.port}; in another terminal:"]
    lines += [f"  {waiting.ssh_line}"]
    if "token" in trouble:
        lines += [f"a relay was refused: {trouble}", "  once, on this machine:"]
        lines += [f"  {copy_line(waiting.login)}"]
    elif trouble:
        lines += [f"last trouble: {trouble}"]
    elif scene.alone_s > KNOCK_S:
        lines += usual_causes(waiting.login, TUNNEL_PORT)
    return lines


def print_scenes(
    receiver: Receiver,
    top_k: int,
    waiting: Waiting,
    each_second: Callable[[Scene], None],
    clock: Clock,
    stop: threading.Event,
    form: Form,
) -> None:
    """Until ``stop``: one line per agent and second; what it waits for whenever that changes."""
    before, told = dict[str, int](), list[str]()
    while True:
        scene = receiver.scene(top_k)
        each_second(scene)
        if form is not Form.NONE:
            told = _tell_waiting(waiting, scene, told, form, clock.now())
            for panel in scene.panels:
                frames = scene.frames.get(panel.name, 0) - before.get(panel.name, 0)
                in_words = form is Form.WORDS
                print(line(panel, frames) if in_words else agent_line(panel, frames, clock.now()))
            sys.stdout.flush()
        before = dict(scene.frames)
        if clock.wait(stop, 1.0):
            return


def _tell_waiting(
    waiting: Waiting, scene: Scene, told: list[str], form: Form, now: float
) -> list[str]:
    """Print what is new of why nobody can be shown; returns what is known now."""
    if scene.panels:
        return told
    if form is Form.JSON:
        state = [scene.trouble, str(scene.connected)]
        if state != told:
            print(waiting_line(waiting, scene, now))
        return state
    lines = waiting_lines(waiting, scene)
    for one in lines:
        if one not in told:
            print(one)
    return lines
