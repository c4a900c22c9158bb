"""The next route of ``connect``, its pause and its reason, and the exact ssh commands."""

import argparse
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.attach_command import HOME_ATTACH
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import UsageError
from Daddy.streaming import tunnel_server
from Daddy.streaming.protocol.handshake import Token, find_opening, opening_line
from Daddy.streaming.relay import script_text
from Daddy.streaming.viewer.compose_window import draw_window
from Daddy.streaming.viewer.connect import find_target
from Daddy.streaming.viewer.connect_plan import (
    BACKOFF_S,
    FIX_NO_ROUTE,
    ROUND_S,
    CallEnd,
    ConnectPlan,
    FailureKind,
    LoginTarget,
    SleepDetector,
    StreamRoute,
    diagnose,
    first_plan,
    ssh_command,
    usual_causes,
    wrong_node,
)
from Daddy.streaming.viewer.draw_list import HEIGHT, Text
from Daddy.streaming.viewer.key_bindings import ViewOptions
from Daddy.streaming.viewer.view_model import TunnelInfo, compose_scene
from tests.patience import PATIENCE_S

TARGET = LoginTarget("anna@login1.site.edu", (HOME_ATTACH,))
CONFINED = LoginTarget("anna@login1.site.edu", (HOME_ATTACH,), tunnel_key="/keys/tunnel")
TAKEN = CallEnd(255, ("Error: remote port forwarding failed for listen port 9999",))
AWAY = CallEnd(255, ("ssh: connect to host login1.site.edu port 22: Connection timed out",))
NO_SCRIPT = CallEnd(66, ("no relay of yours has left .config/daddy/attach there",))
DENIED = CallEnd(255, ("anna@login1.site.edu: Permission denied (publickey,password).",))
LOST = CallEnd(255, ("Timeout, server login1.site.edu not responding.",), connected=True)


def by_stdio(target: LoginTarget) -> list[str]:
    return ssh_command(StreamRoute.STDIO, target, 7)


def by_port(target: LoginTarget) -> list[str]:
    return ssh_command(StreamRoute.PORT, target, 7)


def by_dynamic(target: LoginTarget) -> list[str]:
    return ssh_command(StreamRoute.DYNAMIC, target, 7)


def after(*ends: CallEnd, target: LoginTarget = TARGET) -> ConnectPlan:
    course = first_plan(target)
    for end in ends:
        course = course.next_plan(end)
    return course


def test_the_ways_are_tried_in_order_without_a_pause_and_each_says_why() -> None:
    assert after().route is StreamRoute.STDIO
    assert after(NO_SCRIPT).route is StreamRoute.PORT
    last = after(NO_SCRIPT, TAKEN)
    assert (last.route, last.wait_s) == (StreamRoute.DYNAMIC, 0.0)
    assert last.failures()[0].endswith("no relay of yours has left .config/daddy/attach there")
    assert "port 9999 is taken there, or forwarding is disabled" in last.failures()[1]


def test_when_no_way_ever_led_there_a_person_is_told_all_reasons() -> None:
    course = after(NO_SCRIPT, TAKEN, NO_SCRIPT)
    assert course.route is None
    assert len(course.failures()) == 3
    assert course.remedy == FIX_NO_ROUTE


def test_what_worked_once_is_tried_again_for_ever_with_a_pause_between_rounds() -> None:
    course = after(LOST, NO_SCRIPT, TAKEN, NO_SCRIPT)
    assert (course.route, course.wait_s, course.failed) == (StreamRoute.STDIO, ROUND_S, ())


def test_a_network_that_is_away_is_waited_for_longer_and_longer() -> None:
    course, pauses = first_plan(TARGET), []
    for _ in range(5):
        course = course.next_plan(AWAY)
        pauses.append(course.wait_s)
    assert pauses == [*BACKOFF_S, BACKOFF_S[-1]]
    assert course.route is StreamRoute.STDIO
    assert "does not answer" in course.reason
    assert course.next_plan(LOST).wait_s == BACKOFF_S[0], "from the beginning once it has worked"


@pytest.mark.parametrize("stamp", ["", "2026-11-26T22:10:00Z INFO    "])
def test_a_relay_that_was_killed_there_is_started_again_by_the_same_way(stamp: str) -> None:
    line = f"{stamp}relay: a viewer has proved the token: pictures flow"
    course = after(CallEnd(143, (line,), connected=True))
    assert (course.route, course.wait_s, course.failed) == (StreamRoute.STDIO, BACKOFF_S[0], ())
    assert "143" in course.reason


def test_after_a_sleep_the_same_way_is_called_at_once() -> None:
    course = after(AWAY, AWAY, CallEnd(None, slept=True))
    assert (course.route, course.wait_s) == (StreamRoute.STDIO, 0.0)


@pytest.mark.parametrize(
    ("line", "word", "fix"),
    [
        ("@ REMOTE HOST IDENTIFICATION HAS CHANGED! @", "another host key", "ssh-keygen -R"),
        ("Host key verification failed.", "is not known here yet", "run once: ssh anna@login1"),
        ("Permission denied (publickey).", "refuses this login", "ssh-copy-id"),
    ],
)  # fmt: skip
def test_what_only_a_person_can_mend_is_not_tried_again(line: str, word: str, fix: str) -> None:
    course = after(CallEnd(255, (line,)))
    assert course.route is None
    assert word in course.reason
    assert fix in course.remedy


def test_what_a_person_shall_type_names_the_port() -> None:
    target = replace(TARGET, ssh_options=("-p", "2222"))
    changed = after(CallEnd(255, ("REMOTE HOST IDENTIFICATION HAS CHANGED",)), target=target)
    forget = "ssh-keygen -R '[login1.site.edu]:2222', then ssh -p 2222 anna@login1.site.edu"
    assert forget in changed.remedy
    refused = after(CallEnd(255, ("Permission denied (publickey).",)), target=target)
    assert "install a key: ssh-copy-id -p 2222 anna@login1.site.edu" in refused.remedy


def test_the_key_that_setup_made_is_the_second_way_when_ones_own_login_takes_more() -> None:
    course = after(DENIED, target=CONFINED)
    assert course.route is StreamRoute.PORT
    assert after(DENIED, TAKEN, target=CONFINED).route is None, "that key opens one port"
    refused = after(DENIED, DENIED, target=CONFINED)
    assert "refuses the key /keys/tunnel" in refused.reason
    assert "setup" in refused.remedy


def test_the_laptops_key_comes_first_and_a_refused_one_costs_no_way() -> None:
    watching = replace(TARGET, watch_key="/keys/tunnel", may_ask=True)
    assert after(target=watching).route is StreamRoute.KEY
    refused = after(DENIED, target=watching)
    assert refused.route is StreamRoute.STDIO
    assert "refuses the key /keys/tunnel" in refused.reason
    words = ssh_command(StreamRoute.KEY, watching, 7)
    assert words[words.index("-i") + 1] == "/keys/tunnel"
    assert {"BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "ControlPath=none",
            "ClearAllForwardings=yes"} <= set(words)  # fmt: skip
    assert "-R" not in words


def test_port_zero_cannot_be_taken_so_forwarding_is_disabled() -> None:
    output = CallEnd(255, ("Error: remote port forwarding failed for listen port 0",))
    assert diagnose(StreamRoute.DYNAMIC, output, TARGET).reason == (
        "forwarding is disabled there (AllowTcpForwarding)"
    )


def test_what_the_other_side_prints_reaches_the_terminal_without_its_control_characters() -> None:
    verdict = diagnose(
        StreamRoute.STDIO, CallEnd(1, ("\x1b[2Jsh: python: not found", "  what to do: x")), TARGET
    )
    assert (verdict.kind, verdict.reason) == (FailureKind.NEXT_ROUTE, "[2Jsh: python: not found")


def test_another_login_node_is_known_by_its_first_name_and_the_line_says_the_right_one() -> None:
    output = ("Warning: x", "daddy-relay login2", "daddy-here login1.site.edu")
    assert wrong_node(output, TARGET).endswith("connect anna@login2.site.edu")
    assert not wrong_node(("daddy-relay login1", "daddy-here login1.site.edu"), TARGET)
    assert not wrong_node(("daddy-here login1",), TARGET)


def test_the_usual_causes_are_three_and_end_in_a_line_to_type() -> None:
    text = usual_causes("anna@login1", 9999)
    assert [line[:2] for line in text[1:4]] == ["1.", "2.", "3."]
    assert text[-1].endswith("tunnel_server connect anna@login1")


@pytest.mark.parametrize("size", [(800, 600), (640, 480)])
def test_the_waiting_screen_has_room_for_all_that_is_said(size: tuple[int, int]) -> None:
    course = after(NO_SCRIPT, TAKEN, NO_SCRIPT)
    output = (course.reason, *course.failures(), f"what to do: {course.remedy}")
    empty = compose_scene([], 2, 0.0, (), "", {})
    waiting = TunnelInfo(9999, TARGET.login)
    for scene, word in (
        (replace(empty, connect_lines=output), "no route leads to a relay"),
        (replace(empty, without_relay_s=11.0), "no relay has connected for 10 s"),
    ):
        texts = [
            item
            for item in draw_window(scene, size, ViewOptions(2), waiting)
            if isinstance(item, Text)
        ]
        places = sorted({item.y for item in texts})
        assert any(word in item.text for item in texts)
        assert places[-1] < size[1] - HEIGHT
        assert places[-1] - places[-2] > HEIGHT, "the keys are below all that is said"
    quiet = draw_window(replace(empty, without_relay_s=9.0), size, ViewOptions(2), waiting)
    assert not any(isinstance(item, Text) and "has connected" in item.text for item in quiet)


def test_a_sleep_is_wall_time_without_monotonic_time() -> None:
    naps = SleepDetector(1000.0, 10.0)
    assert not naps.slept(1060.0, 70.0)
    assert not naps.slept(1063.0, 70.0), "a clock that is set right is no sleep"
    assert naps.slept(9000.0, 71.0)
    assert not naps.slept(9001.0, 72.0), "told once"


def test_every_call_has_keep_alives_and_strict_host_keys_and_asks_only_a_person() -> None:
    for words in (by_stdio(TARGET), by_port(TARGET), by_dynamic(TARGET)):
        assert {"ServerAliveInterval=5", "ServerAliveCountMax=3", "StrictHostKeyChecking=yes",
                "BatchMode=yes"} <= set(words)  # fmt: skip
        assert words[words.index("--") + 1] == TARGET.login
    assert "9999:127.0.0.1:7" in by_port(TARGET)
    assert "ExitOnForwardFailure=yes" in by_port(TARGET)
    assert "BatchMode=no" in by_stdio(LoginTarget("a@b", (), may_ask=True))
    assert "ClearAllForwardings=yes" in by_stdio(TARGET), "a LocalForward of the config's"


def test_the_confined_key_runs_nothing_and_offers_no_other_key() -> None:
    words = by_port(CONFINED)
    assert words[words.index("-i") + 1] == "/keys/tunnel"
    assert {"-N", "IdentitiesOnly=yes", "IdentityAgent=none"} <= set(words)
    assert words[-1] == CONFINED.login


def test_the_words_for_a_login_shell_fit_into_one_line_without_an_exclamation_mark() -> None:
    for words in (by_stdio(TARGET), by_port(TARGET)):
        assert "!" not in words[-1]
        assert "\n" not in words[-1]


def test_a_script_of_somebody_elses_is_not_run(tmp_path: Path) -> None:
    """A run's folder may belong to another account."""
    theirs = tmp_path / "attach"
    theirs.write_text("#!/bin/sh\necho ran\n")
    words = shlex.split(by_stdio(LoginTarget("a@b", (str(theirs),)))[-1])
    mine = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert mine.stdout == "ran\n"
    words[2] = words[2].replace("-O", "-p")  # makes the test for another's file answer no
    other = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (other.stdout, other.returncode) == ("", 66)


@pytest.mark.parametrize("way", ["a link", "writable by others"])
def test_a_script_that_others_could_have_put_there_is_not_run(tmp_path: Path, way: str) -> None:
    ours, attach = tmp_path / "ours", tmp_path / "attach"
    ours.write_text("#!/bin/sh\necho ran\n")
    if way == "a link":
        attach.symlink_to(ours)
    else:
        ours.rename(attach)
        attach.chmod(0o770)
    words = shlex.split(by_stdio(LoginTarget("a@b", (str(attach),)))[-1])
    output = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (output.stdout, output.returncode) == ("", 66)
    waits = shlex.split(by_port(LoginTarget("a@b", (str(attach),)))[-1])
    done = subprocess.run(
        waits, input="", capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert "daddy-here" not in done.stderr


def test_a_run_in_a_folder_with_a_space_and_a_quote_is_found_by_the_script(tmp_path: Path) -> None:
    run = tmp_path / "anna's run"
    run.mkdir()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\npwd; for one; do echo "<$one>"; done; echo "$LD_LIBRARY_PATH"\n')
    python.chmod(0o700)
    script = tmp_path / "attach"
    script.write_text(script_text(run, str(python), tmp_path, "login1", "/lib of mine"))
    output = subprocess.run(["sh", str(script), "--told-port"], capture_output=True, text=True,
                          check=True, timeout=PATIENCE_S).stdout.splitlines()  # fmt: skip
    assert output[0] == str(run)
    assert output[-3:] == [f"<{run}>", "<--told-port>", "/lib of mine"]


def test_what_a_login_prints_before_the_relay_speaks_is_passed_over() -> None:
    token = Token(bytes(range(32)))
    line = opening_line(token).encode()
    assert find_opening(b"Welcome to login1!\n" + line) is None, "not whole yet"
    found = find_opening(b"Welcome to login1!\nquota: 7 %" + line + b"\nrest")
    assert found == (token, b"rest")
    assert find_opening(b"daddy-stream-1 open 00ff\n") is None


def args(**changes: object) -> argparse.Namespace:
    return argparse.Namespace(**{"login": "", "run_dir": "", "remote_port": "9999", **changes})


def test_what_setup_keeps_need_not_be_typed(tmp_path: Path) -> None:
    write_json(tmp_path / ".config" / "daddy" / "sync.json", {
        "host": "login1", "user": "anna", "folder": "runs/slim_run/shared_weights",
        "port": "2222", "tunnel_key": "/keys/tunnel",
    })  # fmt: skip
    target = find_target(args(), {}, tmp_path, asks=False)
    assert target.login == "anna@login1"
    assert target.ssh_options == ("-p", "2222")
    assert target.scripts == ("runs/slim_run/stream/attach", HOME_ATTACH)
    assert (target.tunnel_key, target.watch_key) == ("/keys/tunnel", ""), "an older release's"
    saved = tmp_path / ".config" / "daddy" / "sync.json"
    write_json(saved, {**read_json(saved), "tunnel_by": "attach"})
    target = find_target(args(), {}, tmp_path, asks=False)
    assert (target.tunnel_key, target.watch_key) == ("", "/keys/tunnel")
    named = find_target(args(run_dir="runs/x"), {}, tmp_path, asks=False)
    assert (named.tunnel_key, named.watch_key) == ("", ""), "the key's line names its own run"
    other = find_target(args(login="anna@login2", run_dir="~/runs/x/"), {}, tmp_path, asks=False)
    assert (other.ssh_options, other.tunnel_key, other.scripts) == (
        (),
        "",
        ("runs/x/stream/attach",),
    )


@pytest.mark.parametrize("login", ["", "-oProxyCommand=touch", "a b", "a@-b"])
def test_what_is_no_login_never_reaches_ssh(login: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        find_target(args(login=login), {}, tmp_path, asks=False)


def test_without_ssh_the_line_that_installs_it_is_told_and_the_exit_is_8(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_entry(tunnel_server.main, ["connect", "anna@login1", "--headless"]) == 8
    assert "sudo apt install openssh-client" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0.0.0.0:9999", "*:9999", "[::]:9999"])
def test_another_address_than_loopback_is_refused_with_the_reason(port: str, capsys) -> None:
    words = ["connect", "anna@login1", "--headless", "--remote-port", port]
    assert run_entry(tunnel_server.main, words) == 2
    output = capsys.readouterr().err
    assert "GatewayPorts" in output
    assert "give a number alone" in output
