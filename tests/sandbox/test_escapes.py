"""Nothing in the table of escapes gets out of a bubblewrap sandbox, and every row could fail."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.components import program
from tests.patience import PATIENCE_S

if sys.platform != "linux":
    pytest.skip("bubblewrap needs Linux", allow_module_level=True)
if not os.environ.get("DADDY_ESCAPES"):  # its controls attack this machine, as root too
    pytest.skip("set DADDY_ESCAPES=1 on a machine to throw away", allow_module_level=True)

from tests.sandbox.escape_rows import ROWS
from tests.sandbox.escapes import ORDINARY_UID, ROOT
from tests.sandbox.play_escapes import PAGE, page

PLAYERS = {
    "root": [],
    "ordinary user": ["--as", str(ORDINARY_UID)],
    "controls": ["--controls"],
}
if os.geteuid():
    PLAYERS = {"ordinary user": [], "controls": ["--controls"]}
ACCOUNTS = [name for name in PLAYERS if name != "controls"]
PLAYS = [(account, row, mode) for account in ACCOUNTS for row in ROWS for mode in row.modes]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[tuple[str, str], Any]]:
    """Play the whole table as each account, and the controls, at the same time.

    An ordinary user has no control group to measure memory by: there, one after the other.
    """
    program("bwrap", "bubblewrap")
    folder = tmp_path_factory.mktemp("played")
    if os.geteuid():
        return {name: _results(_start(name, folder), folder / name) for name in PLAYERS}
    started = {name: _start(name, folder) for name in PLAYERS}
    return {name: _results(process, folder / name) for name, process in started.items()}


def _start(name: str, folder: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.sandbox.play_escapes", *PLAYERS[name]]
    return subprocess.Popen([*argv, "--json", str(folder / name)], cwd=ROOT)


def _results(process: subprocess.Popen[bytes], file: Path) -> dict[tuple[str, str], Any]:
    try:
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.terminate()
    return {(found["attempt"], found["mode"]): found for found in json.loads(file.read_text())}


@pytest.mark.parametrize(
    ("account", "row", "mode"), PLAYS, ids=[f"{a}, {m}: {row.attempt}" for a, row, m in PLAYS]
)
def test_nothing_gets_out(played: Any, account: str, row: Any, mode: str) -> None:
    """The host saw no gain, the attempt was refused as expected, and the next snippet worked."""
    result = played[account][row.attempt, mode]
    assert result["gained"] == "", result["text"]
    assert result["refused"], f"not refused by {row.refusal}: {result['text']}"
    assert result["alive"], f"the next snippet failed: {result['text']}"


@pytest.mark.parametrize("row", ROWS, ids=[row.attempt for row in ROWS])
def test_the_same_attempt_succeeds_without_the_protection(played: Any, row: Any) -> None:
    result = played["controls"][row.attempt, "control"]
    if row.control.root and os.geteuid():
        pytest.skip("only root could do this unconfined")
    if result["text"].endswith(("ENOSYS", "EAFNOSUPPORT")):
        pytest.skip(f"this kernel has none: {result['text'][-80:]}")
    assert result["gained"], f"this row cannot fail: {result['text']}"


def test_no_attempt_is_listed_twice_and_fifteen_are_our_own() -> None:
    names = [row.attempt for row in ROWS]
    assert len(set(names)) == len(names)
    assert sum(row.own for row in ROWS) >= 15


def test_the_page_of_escapes_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.sandbox.play_escapes --page"


def test_a_row_that_escapes_is_red() -> None:
    """The judges see what a sandbox lets through: here one without seccomp."""
    program("bwrap", "bubblewrap")
    from Daddy.sandbox.bubblewrap import BubblewrapBackend
    from tests.sandbox.escapes import Host, play_table
    from tests.sandbox.weakened import without

    rows = [row for row in ROWS if row.attempt.startswith(("make a vsock", "add a key"))]
    assert len(rows) == 2
    host = Host()
    try:
        with without("seccomp"):
            results = asyncio.run(play_table(BubblewrapBackend().create, host, rows))
    finally:
        host.close()
    assert [result.held for result in results] == [False] * 4
