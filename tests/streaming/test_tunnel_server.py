"""The viewer command's answers to valid and invalid flags."""

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.entry_point import run_entry
from Daddy.streaming import tunnel_server
from Daddy.streaming.protocol.handshake import ensure_token, home_token, load_tokens
from Daddy.streaming.viewer.receiver import Receiver
from tests.patience import PATIENCE_S
from tests.streaming.helpers import CHECKOUT, finish, free_port, start


def test_a_port_in_use_is_exit_8_and_says_what_to_do(tmp_path: Path) -> None:
    first = start("Daddy.streaming.tunnel_server", "--port", port := free_port(), "--headless",
                  home=tmp_path)  # fmt: skip
    try:
        assert first.stdout
        assert "waiting for the tunnel" in first.stdout.readline()
        second = start("Daddy.streaming.tunnel_server", "--port", port, "--headless", home=tmp_path)
        output = second.communicate(timeout=PATIENCE_S)[0]
    finally:
        finish(first)
    assert second.returncode == 8
    assert f"port {port} of 127.0.0.1 cannot be used" in output
    assert f"--port {port + 1}" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--port", "70000"], "70000"),
        (["--top-k", "0"], "--top-k 0"),
        (["--width", "5"], "--width 5"),
        (["--height", "100000"], "--height 100000"),
        (["--fps", "0"], "--fps 0"),
        (["--fps", "nan"], "--fps nan"),
        (["--pin", "slot-0"], "slot-0/3"),
        (["--pin", "../x/1"], "names no agent"),
        (["--pin", "slot-0/1"] * 9, "9 pins"),
        (["--seconds", "inf"], "--seconds inf"),
        (["--wait", "-1"], "--wait -1"),
    ],
)
def test_impossible_flags_are_exit_2_with_the_value(flags, word, capsys) -> None:
    assert run_entry(tunnel_server.main, [*flags, "--headless"]) == 2
    assert word in capsys.readouterr().err


def test_the_first_start_makes_a_private_token(tmp_path: Path) -> None:
    viewer = start("Daddy.streaming.tunnel_server", "--port", free_port(), "--headless",
                   "--seconds", 0.2, home=tmp_path)  # fmt: skip
    assert "waiting" in finish_by_itself(viewer)
    path = tmp_path / ".config" / "daddy" / "stream.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(load_tokens([path])) == 1


def finish_by_itself(viewer: subprocess.Popen[str]) -> str:
    output = viewer.communicate(timeout=PATIENCE_S)[0]
    assert viewer.returncode == 0
    return output


def test_an_existing_token_is_kept(tmp_path: Path) -> None:
    path = home_token(tmp_path)
    ensure_token(path, "me")
    before = path.read_bytes()
    ensure_token(path, "somebody else")
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["others may read it", "it is no token"])
def test_a_damaged_token_file_is_exit_9_and_never_shown(
    tmp_path: Path, damage: str, capsys
) -> None:
    path = tmp_path / "token"
    ensure_token(path, "me")
    secret = path.read_text().split()[0]
    if damage == "others may read it":
        path.chmod(0o644)
    else:
        path.write_text(secret[:-2] + "\n")
    arguments = ["--headless", "--port", "0", "--token", str(path)]
    assert run_entry(tunnel_server.main, arguments) == 9
    output = capsys.readouterr().err
    assert str(path) in output
    assert secret[:10] not in output


def test_headless_loads_neither_pygame_nor_torch_nor_numpy(tmp_path: Path) -> None:
    program = (
        "import sys; from Daddy.streaming import tunnel_server, relay; "
        "tunnel_server.main(['--headless', '--port', '0', '--seconds', '0.1']); "
        "print(sorted({'pygame', 'torch', 'numpy', 'pyboy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_a_display_lines_are_printed_instead(tmp_path: Path) -> None:
    viewer = start("Daddy.streaming.tunnel_server", "--port", free_port(), home=tmp_path,
                   SDL_VIDEODRIVER="x11", DISPLAY=":4711")  # fmt: skip
    assert viewer.stdout is not None
    output = viewer.stdout.readline() + viewer.stdout.readline()
    viewer.send_signal(signal.SIGINT)
    finish_by_itself(viewer)
    assert "no window" in output
    assert "--web" in output, "where the same can be seen"
    assert "waiting for the tunnel" in output


def test_closing_leaves_the_port_free(tmp_path: Path) -> None:
    from Daddy.core.clock import SystemClock
    from Daddy.streaming.protocol.messages import Subscription

    port = free_port()
    for _ in range(2):
        Receiver(port, tuple, Subscription(2, 30), SystemClock()).close()
