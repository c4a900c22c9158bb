"""Screens on terminals of every kind, on a real pseudo-terminal, and in a pipe."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator

import pytest

from Daddy.core.atomic_files import write_json
from Daddy.core.load_config import config_to_json
from Daddy.core.run_paths import RunPaths
from tests.cluster.commands.test_status_screen import run as slots  # noqa: F401 - a fixture
from tests.cluster.conftest import config_of
from tests.patience import PATIENCE_S

CONTROLLER = "Daddy.cluster.orchestrator.run_controller"
DASHBOARD, WATCH = "Daddy.dashboard", f"{CONTROLLER} status --watch"
Start = Callable[..., "Terminal"]


class Terminal:
    """A command of ours on a pseudo-terminal of a size."""

    def __init__(self, argv: list[str], env: dict[str, str], columns: int) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.child = subprocess.Popen(
            [sys.executable, "-m", *argv], stdin=theirs, stdout=theirs, stderr=theirs, env=env
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, word: str, times: int = 1) -> str:
        """Read until ``word`` was printed ``times`` times; pytest's time limit ends the wait."""
        while self.text.count(word) < times:
            self.text += os.read(self._ours, 65536).decode()
        return self.text

    def close(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        os.close(self._ours)


@pytest.fixture
def start(slots: RunPaths) -> Iterator[Start]:  # noqa: F811 - the fixture
    """Provide a function that starts a command for a run with two slots on a terminal."""
    slots.config.write_bytes(config_to_json(config_of(slots.root, run_dir=str(slots.root))))
    begun = list[Terminal]()

    def start(words: str, columns: int = 80, term: str = "xterm") -> Terminal:
        env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {
            "TERM": term,
            "DADDY_RUN_DIR": str(slots.root),
        }
        folder = ["--run-dir", str(slots.root)] if words == DASHBOARD else []
        begun.append(Terminal([*words.split(), *folder], env, columns))
        return begun[-1]

    yield start
    for terminal in begun:
        terminal.close()


@pytest.mark.parametrize("words", [DASHBOARD, WATCH])
def test_a_dumb_terminal_gets_plain_lines_again_and_again(start: Start, words: str) -> None:
    text = start(words, columns=120, term="dumb").read_until("pid ", times=2)
    assert "\x1b" not in text
    assert "crashed: exit code 1: out of memory" in text
    assert re.search("beat +then", text)  # a column for 104 columns and more


@pytest.mark.parametrize("words", [DASHBOARD, WATCH])
def test_a_terminal_gets_its_screen_redrawn_in_place(start: Start, words: str) -> None:
    text = start(words).read_until("pid ", times=2)
    assert text.index("\x1b[?1049h") < text.index("slots")  # the alternate screen


@pytest.mark.parametrize("words", [f"{DASHBOARD} --once", f"{CONTROLLER} status"])
def test_a_pipe_gets_whole_lines_without_control_characters(
    slots: RunPaths,  # noqa: F811 - the fixture
    words: str,
) -> None:
    slots.config.write_bytes(config_to_json(config_of(slots.root, run_dir=str(slots.root))))
    copied = {"version": 3, "copied_ts": 0.0, "folder": "/home/anna/" + "a folder/" * 30}
    write_json(slots.mirrored, copied)
    folder = ["--run-dir", str(slots.root)] if "dashboard" in words else []
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", *words.split(), *folder],
        env={**env, "TERM": "xterm", "DADDY_RUN_DIR": str(slots.root)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert not {letter for letter in done.stdout if ord(letter) < 32} - {"\n"}
    assert f"ago to {copied['folder']}".rstrip() in done.stdout  # not folded at 80 columns
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
