"""Tests laptops without a usable rsync: a shell that talks, an older rsync, odd ssh settings."""

import json
import pwd
import shutil
from pathlib import Path

import pytest

from Daddy.weights.laptop.pulled_folder import newest_verified
from tests.cluster.test_sync_weights import Home
from tests.components import absent, program
from tests.weights.helpers import ManualClock
from tests.weights.login import running_sshd


@pytest.fixture
def make_home(tmp_path):
    """Return a function that makes a laptop of a cluster whose sshd has these settings."""
    sshd = program("sshd", "openssh-server")
    program("rsync", "rsync")
    (tmp_path / "home").mkdir()
    running = []

    def make(settings: str = "") -> Home:
        context = running_sshd(tmp_path / "login", sshd, settings)
        running.append(context)
        shared = tmp_path / "run" / "shared_weights"
        found = Home(context.__enter__(), tmp_path / "home", shared, ManualClock())
        found.job()
        return found

    yield make
    for context in running:
        context.__exit__(None, None, None)


def talking(tmp_path: Path) -> str:
    """Return sshd's settings for an account whose bash greets each session, before its command."""
    if not pwd.getpwuid(0).pw_shell.endswith("bash"):
        absent("bash", "as the account's shell")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / ".bashrc").write_text("echo Welcome to the cluster\n")
    return f"SetEnv HOME={tmp_path / 'there'}"


def remembered(home: Home) -> str:
    return json.loads((home.home / ".config" / "daddy" / "sync.json").read_text()).get(
        "transport", ""
    )


def test_past_a_shell_that_talks_sftp_pulls_at_once_and_the_cure_is_said(make_home, tmp_path):
    home = make_home(talking(tmp_path))
    done = home.sync("pull")
    assert "pulled v0" in done.stdout, done.stderr
    assert "by SFTP from now on" in done.stderr
    assert "prints text before rsync begins" in done.stderr
    assert "~/.bashrc" in done.stderr
    chosen = home.sync("pull", SYNC_TRANSPORT="rsync")
    assert (chosen.returncode, "prints text before" in chosen.stderr) == (9, True)


def test_setup_moves_a_byte_and_remembers_what_carried_it(make_home, tmp_path):
    home = make_home(talking(tmp_path))
    said = home.sync("setup").stdout
    assert "NO       rsync: " in said
    assert "ok       sftp: carries files both ways" in said
    assert said.endswith("ready (by SFTP): ./Daddy/cluster/sync_weights.sh pull\n")
    assert remembered(home) == "sftp"
    done = home.sync("pull")
    assert ("pulled v0" in done.stdout, done.stderr) == (True, "")
    assert "route   sftp" in home.sync("status").stdout


def test_a_chosen_transport_is_kept_by_setup(make_home):
    home = make_home()
    assert "ready (by SFTP)" in home.sync("setup", SYNC_TRANSPORT="sftp").stdout
    assert "route   sftp" in home.sync("status").stdout
    assert home.sync("setup", SYNC_TRANSPORT="ftp").returncode == 2
    again = home.sync("setup").stdout
    assert "ok       rsync: carries files both ways" in again
    assert (remembered(home), again.endswith("ready: ./Daddy/cluster/sync_weights.sh pull\n")) == (
        "",
        True,
    )


def test_where_sftp_needs_the_talking_shell_too_the_shell_is_named(make_home, tmp_path):
    server = Path("/usr/lib/openssh/sftp-server")
    if not server.exists():
        absent("openssh-sftp-server")
    home = make_home(f"{talking(tmp_path)}\nSubsystem sftp {server}")
    done = home.sync("pull")
    assert done.returncode == 8, done.stderr
    assert "prints text before" in done.stderr
    assert "Traceback" not in done.stderr
    assert home.sync("setup").returncode


REFUSES_A_FLAG = """case "$*" in *--partial-dir*)
  echo "rsync: unrecognized option \\`--partial-dir=.part'" >&2; exit 1 ;; esac
"""
PULLS_NOTHING = """for last; do :; done
case "$last" in *cluster:*) ;; *) echo "rsync: error: unexpected end of file" >&2; exit 12 ;; esac
"""


def older_rsync(folder: Path, fault: str) -> str:
    """Return a PATH on which rsync has a fault of macOS's; it logs its calls."""
    folder.mkdir()
    shim = folder / "rsync"
    shim.write_text(
        f'#!/bin/sh\necho "$@" >>{folder}/calls\n{fault}exec {shutil.which("rsync")} "$@"\n'
    )
    shim.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("fault", [REFUSES_A_FLAG, PULLS_NOTHING], ids=["flag", "pull"])
def test_setup_finds_an_rsync_that_cannot_pull_and_pulls_by_sftp(make_home, tmp_path, fault):
    home = make_home()
    path = f"{older_rsync(tmp_path / 'old', fault)}:{home.environment()['PATH']}"
    assert "ready (by SFTP)" in home.sync("setup", PATH=path).stdout
    done = home.sync("pull", PATH=path)
    assert ("pulled v0" in done.stdout, done.stderr) == (True, "")


def test_an_rsync_that_lacks_a_flag_is_tried_once_and_sftp_remembered(make_home, tmp_path):
    home = make_home()
    home.sync("setup")
    assert remembered(home) == ""
    path = f"{older_rsync(tmp_path / 'old', REFUSES_A_FLAG)}:{home.environment()['PATH']}"
    first = home.sync("pull", PATH=path)
    assert "pulled v0" in first.stdout, first.stderr
    assert "lacks a flag: rsync: unrecognized option" in first.stderr
    calls = (tmp_path / "old" / "calls").read_text()
    second = home.sync("bidirectional", PATH=path)
    assert (second.returncode, second.stderr) == (0, "")
    assert (tmp_path / "old" / "calls").read_text() == calls
    assert newest_verified(home.local).version == 0


@pytest.mark.parametrize(
    ("settings", "line", "message", "fix"),
    [
        ("MaxAuthTries 1", "  IdentityFile {stranger}\n", "too many keys", "SYNC_SSH_KEY"),
        ("", "  RemoteCommand tmux\n", "sets RemoteCommand", "without RemoteCommand"),
    ],
)
def test_odd_ssh_settings_are_named_with_their_cure(make_home, settings, line, message, fix):
    home = make_home(settings)
    own = "  IdentityFile "
    text = home.login.config.read_text()
    home.login.config.write_text(text.replace(own, line.format(stranger=home.stranger()) + own, 1))
    for transport in ("", "sftp"):
        done = home.sync("pull", SYNC_TRANSPORT=transport)
        assert done.returncode == 8
        assert message in done.stderr
        assert fix in done.stderr


def test_a_terminal_that_ssh_is_told_to_ask_for_disturbs_no_transfer(make_home):
    home = make_home()
    text = home.login.config.read_text()
    home.login.config.write_text(text.replace("  Port", "  RequestTTY force\n  Port", 1))
    done = home.sync("pull")
    assert ("pulled v0" in done.stdout, done.stderr) == (True, "")
