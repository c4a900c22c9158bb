"""Facts of a machine and its processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.host_and_processes import (
    command_lines,
    let_others_run_first,
    move_to_core,
    present_core,
    socket_owner,
    user_name,
)
from tests.components import absent

_DIAL = "import socket, sys; s = socket.create_connection(('127.0.0.1', {port})); s.recv(1)"


def test_a_process_is_found_by_its_command_line() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()", "a word"], stdin=subprocess.PIPE)
    try:
        assert command_lines()[sleeper.pid].endswith("-c input() a word")
    finally:
        sleeper.communicate()


def started_by(*loader: str) -> str | None:
    """Name of the program at the other end of a connection, as ``socket_owner`` sees it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        python = os.path.realpath(sys.executable)
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
        child = subprocess.Popen(
            [*loader, python, "-c", _DIAL.format(port=port)], env=environment
        )  # fmt: skip
        try:
            ours, theirs = server.accept()
            with ours:
                return socket_owner(theirs[1], port)
        finally:
            child.kill()
            child.wait()


def test_a_connection_is_traced_to_the_program_that_made_it() -> None:
    assert (started_by() or "").startswith("python")


def test_a_program_that_the_loader_was_told_to_run_goes_by_its_own_name() -> None:
    loaders = [str(path) for path in Path("/lib64").glob("ld-linux-*.so.*")]
    if not loaders:
        absent("a Linux loader")
    assert (started_by(loaders[0]) or "").startswith("python")


def test_an_account_without_an_entry_is_named_by_its_shell_or_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert user_name() != str(os.getuid())
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_019)
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert user_name() == "2000000019"
    monkeypatch.setenv("USER", "ada")
    assert user_name() == "ada"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no affinity")
def test_a_thread_moves_to_a_core_and_is_not_held_there(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[set[int]] = []
    cores = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _pid, wanted: held.append(set(wanted)))
    core = present_core()
    move_to_core(core)
    assert held == [{core}, cores]
    move_to_core(max(cores) + 1)  # not ours
    assert len(held) == 2


def refuse(*_: object) -> None:
    raise PermissionError


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such hints")
@pytest.mark.parametrize("call", ["sched_getaffinity", "sched_setaffinity", "sched_setscheduler"])
def test_where_hints_to_the_scheduler_are_forbidden_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    core = present_core()
    monkeypatch.setattr(os, call, refuse)
    move_to_core(core)
    let_others_run_first()
