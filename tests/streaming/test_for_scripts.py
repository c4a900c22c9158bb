"""The output of a viewer for scripts: JSON lines, and the exit status with its reason."""

import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.entry_point import run_entry
from Daddy.streaming import tunnel_server
from Daddy.streaming.login import relay_connections
from Daddy.streaming.protocol.framing import MessageKind, read_bye
from Daddy.streaming.protocol.handshake import (
    RELAY,
    StreamSession,
    Token,
    ensure_token,
    load_tokens,
)
from Daddy.streaming.protocol.messages import Peer
from Daddy.streaming.viewer.headless_viewer import agent_json, agent_text
from tests.patience import PATIENCE_S
from tests.streaming.helpers import CHECKOUT, finish, free_port, start
from tests.streaming.test_relay_to_viewer import learners, relay
from tests.streaming.test_viewer import panel

VIEWER = "Daddy.streaming.tunnel_server"


def test_one_json_object_per_agent_and_second(run: Path, token: Path, tmp_path: Path) -> None:
    port = free_port()
    flags = ("--top-k", 1, "--pin", "slot-0/0")  # the best agent plays in slot-1
    viewer = start(VIEWER, "--port", port, "--json", "--token", token, *flags, home=tmp_path)
    lines: list[dict] = []
    try:
        with learners(run / "stream"), relay(run, port, token):
            assert viewer.stdout
            while sum(line["what"] == "agent" and line["frames"] > 0 for line in lines) < 4:
                lines.append(json.loads(viewer.stdout.readline()))
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(PATIENCE_S) == 0
    finally:
        finish(viewer)
    assert lines[0]["what"] == "waiting"
    assert lines[0]["port"] == port
    last = lines[-1]
    assert last["agent"] == "slot-0/0"
    assert (last["host"], last["job"], last["map"]) == ("node1", "17", "Fern Hollow")
    assert last["score"] == last["badges"] + last["story_flags"]
    assert last["stale"] is False


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_narrow_terminal_gets_fewer_facts_of_an_agent_and_whole_numbers(width: int) -> None:
    seen = replace(panel(), row=replace(panel().row, episode_return=12345.6, step=1_234_567))
    line = agent_text(seen, 7, width)
    assert len(line) <= width
    assert seen.name in line
    assert "return  12345.6" in line
    assert ("step 1,234,567" in line) == (width >= 120)
    assert ("B/frame" in line) == (width == 200)


def test_a_line_is_bounded_whatever_the_names() -> None:
    peer = Peer("ö" * 31, "ö" * 64, "ö" * 32)
    long = replace(panel(), name="n" * 37, peer=peer, map_name="é" * 40)
    assert len(agent_json(long, 60, 1e10)) <= 2048
    assert "\n" not in agent_json(long, 60, 1e10)


def leave(*flags: object, home: Path) -> tuple[int, str]:
    viewer = start(VIEWER, "--headless", *flags, home=home)
    try:
        output = viewer.communicate(timeout=PATIENCE_S)[0]
    finally:
        finish(viewer)
    return viewer.returncode, output


def test_no_relay_in_time_is_exit_30_with_the_usual_causes(tmp_path: Path) -> None:
    code, output = leave("--port", free_port(), "--wait", 0.5, home=tmp_path)
    assert code == 30
    assert "no relay connected within 0.5 s" in output
    assert "forwarding failed" in output
    assert "Traceback" not in output


def test_a_refused_relay_is_exit_31_with_both_key_ids(
    run: Path, token: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(relay_connections, "BACKOFF_S", (0.2,))
    other, port = tmp_path / "other", free_port()
    ensure_token(other, "stranger")
    with relay(run, port, other):
        code, output = leave("--port", port, "--wait", 2, "--token", token, home=tmp_path)
    assert code == 31
    assert load_tokens([other])[0].key_id in output
    assert load_tokens([token])[0].key_id in output
    assert "Traceback" not in output


def test_a_wait_that_is_none_is_exit_2(capsys) -> None:
    assert run_entry(tunnel_server.main, ["--headless", "--wait", "0"]) == 2
    assert "--wait 0" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_says_goodbye_to_the_relay_and_ends_in_good_order(
    number: int, token: Path, tmp_path: Path
) -> None:
    port, tokens = free_port(), load_tokens([token])
    viewer = start(VIEWER, "--port", port, "--json", "--wait", 30, "--token", token, home=tmp_path)
    try:
        assert viewer.stdout
        assert "waiting" in viewer.stdout.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as wire:
            session = introduce(wire, tokens)
            viewer.send_signal(number)
            heard = []
            while data := wire.recv(4096):
                heard += session.receive(data)
        assert viewer.wait(PATIENCE_S) == 0
    finally:
        finish(viewer)
    assert heard[-1].kind == MessageKind.BYE
    assert read_bye(heard[-1].body)[1] == "the viewer was closed"


def introduce(wire: socket.socket, tokens: tuple[Token, ...]) -> StreamSession:
    session = StreamSession(RELAY, tokens, b"r" * 16)
    while not session.established:
        wire.sendall(session.take_output())
        session.receive(wire.recv(4096))
    return session


def test_without_pygame_lines_are_printed(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pygame'] = None; from Daddy.streaming import tunnel_server; "
        "sys.exit(tunnel_server.main(['--port', '0', '--seconds', '1']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "no window" in done.stderr
    assert "waiting for the tunnel" in done.stdout
