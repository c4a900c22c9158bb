"""The parts of ``sync`` that need no sshd."""

import errno
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from Daddy.core.errors import ConfigError, FileError, NetworkError, UsageError
from Daddy.core.saved_cluster import read_saved_cluster
from Daddy.weights.laptop.pull_push import show_progress
from Daddy.weights.laptop.rsync_sftp import (
    FLAGS,
    PARTIAL,
    DiskFullError,
    RsyncTransport,
    RsyncUnusableError,
    time_limit,
)
from Daddy.weights.laptop.ssh_login import (
    HostKeyChangedError,
    Remote,
    explain_error,
    find_remote,
    save_remote,
)
from Daddy.weights.sync import StoppedBySignal, Sync, next_pause_s, repeat_exchange, stop_on_signals
from tests.weights.helpers import ManualClock

FULL = {"SYNC_CLUSTER_HOST": "login", "SYNC_CLUSTER_USER": "me", "SYNC_REMOTE_DIR": "/data/w"}


@pytest.mark.parametrize(
    ("given", "environ", "kept", "login"),
    [
        ("", FULL, {}, "me@login"),
        ("you", FULL, {}, "you@login"),
        ("you@there", FULL, {}, "you@there"),
        ("", {}, {"host": "old", "user": "she", "folder": "/x"}, "she@old"),
        ("", {"SYNC_CLUSTER_USER": "he"}, {"host": "old", "user": "she", "folder": "/x"}, "he@old"),
        ("", {**FULL, "SYNC_CLUSTER_USER": ""}, {}, "login"),
        ("first.last", FULL, {}, "first.last@login"),
    ],
)
def test_command_line_then_environment_then_what_setup_kept(given, environ, kept, login):
    assert find_remote(given, environ, kept).login == login


def test_everything_that_is_missing_is_named_at_once():
    with pytest.raises(ConfigError, match=r"SYNC_CLUSTER_HOST.*and SYNC_REMOTE_DIR"):
        find_remote("me", {}, {})


@pytest.mark.parametrize("given", ["-oProxyCommand=sh@h", "a b", "me@-x", "me@h;x", "$(x)@h"])
def test_what_could_be_read_as_an_option_or_a_command_is_refused(given):
    with pytest.raises(UsageError):
        find_remote(given, FULL, {})


@pytest.mark.parametrize("name", ["SYNC_SSH_KEY", "SYNC_SSH_CONFIG"])
def test_a_file_that_is_not_there_is_named_and_no_other_used(tmp_path, name):
    path = str(tmp_path / "id")
    with pytest.raises(ConfigError, match=f"{name} names {path}, which does not exist"):
        find_remote("", {**FULL, name: path}, {})


@pytest.mark.parametrize("port", ["0", "65536", "65540", "66000", "70000", "99999", "ssh"])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(UsageError, match="cannot be a port") as caught:
        find_remote("", {**FULL, "SYNC_SSH_PORT": port}, {})
    assert "65535" in caught.value.fix


@pytest.mark.parametrize("port", ["1", "22", "9999", "59999", "64999", "65499", "65529", "65535"])
def test_a_port_is_taken_as_it_is_said(port):
    assert find_remote("", {**FULL, "SYNC_SSH_PORT": port}, {}).port == port


@pytest.mark.parametrize("folder", ["/a b", "/a;b", "-x", "/a$b", "/a\nb", "/a`b`", "/a'b"])
def test_a_remote_folder_that_a_shell_might_read_otherwise_is_refused(folder):
    with pytest.raises(UsageError):
        find_remote("", {**FULL, "SYNC_REMOTE_DIR": folder}, {})


@pytest.mark.parametrize(
    ("folder", "meant"),
    [("~/runs/x", "runs/x"), ("~", "."), ("/a/b/", "/a/b"), ("runs", "runs"), ("/", "/")],
)
def test_a_remote_home_is_written_as_everybody_understands_it(folder, meant):
    assert find_remote("", {**FULL, "SYNC_REMOTE_DIR": folder}, {}).folder == meant


def test_settings_come_back_as_they_were_kept(tmp_path):
    key, config = tmp_path / "id", tmp_path / "config"
    key.touch()
    config.touch()
    remote = Remote("login", "me", "/data/w", str(config), port="2222", key=str(key))
    save_remote(tmp_path / "a" / "sync.json", remote)
    assert find_remote("", {}, read_saved_cluster(tmp_path / "a" / "sync.json")) == remote
    assert read_saved_cluster(tmp_path / "none.json") == {}


def test_damaged_settings_say_which_file_to_remove(tmp_path):
    path = tmp_path / "sync.json"
    path.write_text("{")
    with pytest.raises(ConfigError) as error:
        read_saved_cluster(path)
    assert str(path) in error.value.fix


REMOTE = Remote("login", "me", "/data/w")


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("ssh: Could not resolve hostname login: Name or service not known", "resolved"),
        ("bash: line 1: rsync: command not found\nrsync error: (code 127)", "not installed on me@"),
        ("me@login: Permission denied (publickey).", "refuses our key"),
        ("ssh: connect to host login port 22: Operation timed out", "does not answer"),
        ("ssh: connect to host login port 22: Connection timed out", "does not answer"),
        ("kex_exchange_identification: read: reset\n", "kex_exchange"),
        ("", "no reason was given"),
        ("odd: x\x1b[2J\nDisconnected from 10.0.0.1\nrsync error: (code 12)", r"odd: x?[2J"),
        ("Received disconnect: Too many authentication failures\nDisconnected", "too many keys"),
        ("Cannot execute command-line and remote command.", "sets RemoteCommand"),
        (
            "mismatch -- is your shell clean?\n(see the rsync manpage)\nrsync error: x",
            "prints text",
        ),
    ],
)
def test_failures_are_said_in_words_with_a_way_out(stderr, said):
    error = explain_error(stderr, REMOTE)
    assert said in error.message
    assert error.exit_code == 8
    assert error.fix


@pytest.mark.parametrize(
    ("stderr", "fix"),
    [
        ("x", "try: ssh -F ~/c -p 2222 -i /k me@login true"),
        ("Host key verification failed", "run once: ssh -F ~/c -p 2222 -i /k me@login;"),
        ("Permission denied (publickey)", "ssh-copy-id -F ~/c -p 2222 -i /k me@login"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -R '[login]:2222', then ssh -F ~/c"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED\nOffending ED25519 key in /h/known_hosts:7",
         "remove line 7 of /h/known_hosts, then ssh -F ~/c -p 2222"),
    ],
)  # fmt: skip
def test_a_cure_carries_port_config_and_key(stderr, fix):
    remote = Remote("login", "me", "/data/w", ssh_config="~/c", port="2222", key="/k")
    assert fix in explain_error(stderr, remote).fix


def test_a_changed_host_key_is_never_tried_again():
    text = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."
    assert isinstance(explain_error(text, REMOTE), HostKeyChangedError)


def test_the_socket_is_private_short_and_differs_by_key():
    entry, other = REMOTE, Remote("login", "me", "/data/w", key="/k")
    assert entry.socket != other.socket
    assert entry.socket.parent.stat().st_mode & 0o077 == 0
    assert len(str(entry.socket)) + 1 + 40 + 18 < 104  # %C and ssh's own suffix while it connects


def test_ssh_never_asks_and_checks_the_host():
    words = Remote("login", "me", "/w", ssh_config="~/c", port="22", key="~/k").options()
    for word in ("BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes"):
        assert word in words
    assert str(Path("~/k").expanduser()) in words


NEWER_THAN_MACOS = {"--info", "--log-file", "--contimeout", "--delete-delay", "--append-verify",
                    "--ignore-missing-args", "--zc", "--fsync", "--mkpath"}  # fmt: skip
TORN = {"--inplace", "--append", "-u", "--update", "--delete", "-z", "--delay-updates", "-l", "-a"}


def test_only_flags_that_every_rsync_has_and_none_that_shows_torn_files():
    names = {flag.partition("=")[0] for flag in (*FLAGS, *PARTIAL)}
    assert not names & (NEWER_THAN_MACOS | TORN)


def test_a_slow_line_gets_its_time():
    assert time_limit(0) == 60.0
    assert time_limit(16_000_000) == 1060.0


def test_after_failures_pauses_grow_to_a_minute_with_jitter():
    assert next_pause_s(5.0, 0, 0.9) == 5.0
    assert [next_pause_s(5.0, n, 0.5) for n in range(1, 6)] == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert next_pause_s(5.0, 99, 0.0) == 45.0
    assert next_pause_s(5.0, 99, 1.0) == 75.0
    assert next_pause_s(600.0, 3, 0.5) == 600.0


class Held(ManualClock):
    """A clock that stands still until the body moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Semaphore(0)

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        while not stop.is_set() and not self.go.acquire(timeout=0.02):
            pass
        self.time += seconds
        return stop.is_set()


def test_a_transfer_over_two_seconds_shows_how_far_it_is(tmp_path, capfd):
    clock = Held()
    with show_progress("pulling v7", 4_000_000, clock, tmp_path):
        (tmp_path / ".kf.part").write_bytes(b"x" * 1_000_000)
        clock.go.release()
        time.sleep(0.2)
    said = capfd.readouterr().err
    assert "pulling v7: 1.0 of 4.0 MB, 25 %, 2 s" in said


def test_a_quick_one_shows_nothing(tmp_path, capfd):
    with show_progress("pulling v7", 10, ToldClockThatEnds(), tmp_path):
        pass
    assert capfd.readouterr().err == ""


class ToldClockThatEnds(ManualClock):
    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.wait(5)


def test_a_signal_breaks_off_what_is_under_way():
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        stop_on_signals()
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(StoppedBySignal, match="SIGTERM"):
            time.sleep(5)
        os.kill(os.getpid(), signal.SIGINT)  # a second one disturbs nothing
        time.sleep(0.01)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("code", "stderr", "kind", "exit_code"),
    [
        (12, "rsync error: error in rsync protocol data stream (code 12)", NetworkError, 8),
        (23, "rsync: some files could not be transferred (code 23)", NetworkError, 8),
        (24, "file has vanished: /data/w/x", NetworkError, 8),
        (30, "rsync error: timeout in data send/receive (code 30)", NetworkError, 8),
        (255, "ssh: connect to host login port 22: Connection refused", NetworkError, 8),
        (11, "rsync: write failed on 'x': No space left on device (28)", DiskFullError, 9),
        (11, "rsync: mkdir '/x' failed: Permission denied (13)", FileError, 9),
        (1, "rsync: unrecognized option `--partial-dir=.part'", RsyncUnusableError, 9),
        (2, "rsync error: protocol incompatibility (code 2)", RsyncUnusableError, 9),
        (127, "bash: line 1: rsync: command not found", RsyncUnusableError, 9),
    ],
)
def test_every_way_in_which_rsync_ends_is_said_in_words(
    tmp_path, monkeypatch, code, stderr, kind, exit_code
):
    shim = tmp_path / "rsync"
    shim.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{stderr}\nEND\nexit {code}\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(kind) as error:
        RsyncTransport(REMOTE).fetch("wan/HEAD.json", tmp_path / "into", 0)
    assert error.value.fix
    assert error.value.exit_code == exit_code


@pytest.mark.parametrize("code", [23, 24])
def test_what_is_not_there_is_no_failure(tmp_path, monkeypatch, code):
    shim = tmp_path / "rsync"
    shim.write_text(
        f"#!/bin/sh\necho 'link_stat: No such file or directory (2)' >&2\nexit {code}\n"
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert not RsyncTransport(REMOTE).fetch("wan/HEAD.json", tmp_path / "into", 0)


class Line:
    """A transport that fails each time, after some bytes of a version have arrived."""

    def __init__(self, incoming: Path, arriving: list[int]):
        self._incoming, self._arriving = incoming, arriving

    def prepare(self):
        self._incoming.mkdir(parents=True, exist_ok=True)
        with (self._incoming / "part").open("ab") as stream:
            stream.write(bytes(self._arriving.pop(0)))
        raise NetworkError("the line broke", "try again")


class Waits(ManualClock):
    """Records waits, and ends after a number of them."""

    def __init__(self, most):
        super().__init__()
        self.most, self.waited = most, []

    def wait(self, stop, seconds):
        self.waited.append(seconds)
        if len(self.waited) == self.most:
            raise StoppedBySignal("the test")
        return stop.is_set()


@pytest.mark.parametrize(
    "error",
    [
        DiskFullError("No space left on device: '~/shared_weights/x'"),
        *(
            OSError(number, os.strerror(number), "~/shared_weights/x")
            for number in (errno.ENOSPC, errno.ESTALE, errno.EIO, errno.EMFILE)
        ),
    ],
)
def test_an_error_of_files_that_may_pass_is_waited_out(tmp_path, capsys, error):
    clock = Waits(3)
    repeat_exchange(_failing(error, tmp_path, clock), "pull", 5.0)
    assert len(clock.waited) == 3
    said = capsys.readouterr().out
    assert said.startswith("waiting: ")
    assert said.count(str(error)) == 1


def test_an_error_of_files_that_stays_ends_the_loop(tmp_path):
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "~/shared_weights/x")
    with pytest.raises(PermissionError):
        repeat_exchange(_failing(error, tmp_path, Waits(3)), "pull", 5.0)


def _failing(error, folder, clock):
    class Failing:
        def prepare(self):
            raise error

    return Sync(Failing(), Failing(), folder, clock)


def test_a_line_that_breaks_while_it_carries_is_tried_again_at_once(tmp_path, capsys):
    clock = Waits(5)
    line = Line(tmp_path / "incoming", [100, 100, 0, 0, 100])
    repeat_exchange(Sync(line, line, tmp_path, clock), "pull", 5.0)
    assert clock.waited[:2] == [5.0, 5.0]
    assert 7.5 <= clock.waited[2] <= 12.5
    assert 15.0 <= clock.waited[3] <= 25.0
    assert clock.waited[4] == 5.0
    said = capsys.readouterr().out
    assert said.count("waiting") == 1
    assert said.endswith("ended by the test\n")
