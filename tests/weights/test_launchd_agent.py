"""Tests ``sync_weights.sh`` as an agent of launchd: it says an error once and bounds its log."""

import os
import plistlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.weights.laptop.launchd_agent import LOG_LIMIT, FileWatch, find_plist
from tests.patience import PATIENCE_S, until
from tests.weights.helpers import ManualClock
from tests.weights.login import CHECKOUT, SCRIPT

LABEL = "com.pokemon.sync"
GUIDES = f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN"
 "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict><key>Label</key><string>{LABEL}</string>
<key>ProgramArguments</key><array><string>/bin/bash</string><string>-c</string>
<string>cd ~/PMRL-main && ./Daddy/cluster/sync_weights.sh pull "" ~/shared_weights 5</string>
</array>
<key>RunAtLoad</key><true/><key>KeepAlive</key><true/></dict></plist>
"""


class Agent:
    """An agent's home, and its process, whose output launchd appends to a log."""

    def __init__(self, home: Path, plist: bytes) -> None:
        self.home, self.log = home, home / "sync.log"
        self.plist = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self.plist.parent.mkdir(parents=True)
        self.plist.write_bytes(plist)
        self.child: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, **changes: str) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(CHECKOUT),
            "XPC_SERVICE_NAME": LABEL,
            **changes,
        }
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "Daddy.weights.sync", *words],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def says(self, text: str) -> bool:
        return bool(until(lambda: text in self.log.read_text(errors="replace")))

    def ended(self) -> int:
        return self.child.wait(PATIENCE_S)


@pytest.fixture
def make_agent(tmp_path):
    agents = []

    def make(plist: dict[str, str] | None = None) -> Agent:
        body = GUIDES.encode() if plist is None else plistlib.dumps(plist)
        agents.append(Agent(tmp_path, body))
        return agents[-1]

    yield make
    for agent in agents:
        if agent.child and agent.child.poll() is None:
            agent.child.kill()
            agent.child.wait()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("pull", "", "w", "5"), 3, "the cluster is not known"),
        (("pull", "", "w", "soon"), 2, "is no number of seconds"),
        (("fetch",), 2, "invalid choice"),
    ],
)
def test_an_error_is_said_once_and_a_changed_plist_ends_the_wait(make_agent, words, code, message):
    agent = make_agent()
    agent.start(*words)
    assert agent.says("waiting until one changes: ")
    assert agent.child.poll() is None
    os.utime(agent.plist, (1, 1))
    assert agent.ended() == code
    text = agent.log.read_text()
    assert (text.count(message), text.count("error:")) == (1, 1)


def test_settings_that_setup_writes_end_the_wait_too(make_agent):
    agent = make_agent()
    agent.start("pull", "", "w", "5")
    assert agent.says("waiting until one changes: ")
    settings = agent.home / ".config" / "daddy" / "sync.json"
    settings.parent.mkdir(parents=True)
    settings.write_text("{}")
    assert agent.ended() == 3


@pytest.mark.parametrize("label", ["", "0", "application.com.apple.Terminal.1", "../x"])
def test_in_a_terminal_an_error_ends_at_once(make_agent, label):
    agent = make_agent()
    agent.start("pull", "", "w", "5", XPC_SERVICE_NAME=label)
    assert agent.ended() == 3
    assert "waiting" not in agent.log.read_text()
    assert find_plist({"XPC_SERVICE_NAME": label}, agent.home) is None


def test_a_log_that_grew_in_the_past_is_bounded_and_its_end_kept(make_agent, tmp_path):
    agent = make_agent({"Label": LABEL, "StandardErrorPath": str(tmp_path / "sync.log")})
    agent.log.write_bytes(b"a" * LOG_LIMIT + b"b" * LOG_LIMIT)
    agent.start("pull", "", "w", "5")
    assert agent.says("waiting until one changes: ")
    agent.child.send_signal(signal.SIGTERM)
    assert agent.ended() == 3
    assert agent.log.stat().st_size < 2_000
    assert (tmp_path / "sync.log.1").read_bytes() == b"b" * LOG_LIMIT


def test_a_running_loop_bounds_its_log_and_goes_on_in_it(make_agent, tmp_path):
    agent = make_agent({"Label": LABEL, "StandardOutPath": str(tmp_path / "sync.log")})
    cluster = {"SYNC_CLUSTER_HOST": "nowhere.invalid", "SYNC_REMOTE_DIR": "/w"}
    agent.start("pull", "", str(tmp_path / "w"), "0.05", **cluster)
    assert agent.says("waiting: ")
    with agent.log.open("ab") as log:
        log.write(b"x" * LOG_LIMIT)
    assert until((tmp_path / "sync.log.1").exists)
    agent.child.send_signal(signal.SIGTERM)
    assert agent.ended() == 0
    assert agent.log.read_text().endswith("ended by SIGTERM\n")
    assert agent.log.stat().st_size < 2_000


def test_a_log_of_others_stays_as_it_is(make_agent, tmp_path):
    other = tmp_path / "other.log"
    other.write_bytes(b"x" * 2 * LOG_LIMIT)
    agent = make_agent({"Label": LABEL, "StandardOutPath": str(other)})
    agent.start("pull", "", "w", "5")
    assert agent.says("waiting until one changes: ")
    assert other.stat().st_size == 2 * LOG_LIMIT


def test_a_watch_sees_a_file_that_appears_while_it_waits(tmp_path):
    path = tmp_path / "sync.json"

    class Clock(ManualClock):
        def wait(self, stop, seconds):
            path.write_text("{}")
            return super().wait(stop, seconds)

    FileWatch([path]).wait(Clock())


def test_without_an_installation_an_agent_waits_for_it(tmp_path):
    checkout = tmp_path / "checkout"
    (checkout / "Daddy" / "cluster").mkdir(parents=True)
    script = shutil.copy(SCRIPT, checkout / "Daddy" / "cluster")
    Agent(tmp_path, GUIDES.encode())
    python = checkout / ".venv" / "bin" / "python"
    tools = tmp_path / "tools"
    tools.mkdir()
    sleep = tools / "sleep"  # the installation comes while the agent sleeps
    sleep.write_text(
        f'#!/bin/sh\nmkdir -p {python.parent}\nprintf "#!/bin/sh\\necho here\\n" >{python}\n'
        f"chmod 755 {python}\n"
    )
    sleep.chmod(0o755)
    done = subprocess.run(
        [str(script), "pull"], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "XPC_SERVICE_NAME": LABEL},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert done.stderr.count("is not installed") == 1
