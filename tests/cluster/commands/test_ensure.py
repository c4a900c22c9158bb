"""``ensure``: starts a controller if needed; lines for cron; survival of the daemon on a host."""

import configparser
import json
import os
import shlex
import signal
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands import ensure
from Daddy.cluster.orchestrator.commands.ensure import crontab_line, describe_survival, render_units
from Daddy.cluster.orchestrator.control_files import DesiredRun, read_intent, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.lease import read_lease
from tests.cluster.conftest import Person, small_config, until


def test_a_dead_controller_is_started_again_and_a_living_one_is_left_alone(person: Person) -> None:
    config = small_config(person.run.root, training={"max_runtime_seconds": 60})
    person.config.write_text(json.dumps(config))
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    first, asked = person.controller, read_intent(person.run)
    assert "a controller is alive" in person.run_controller("ensure").stdout
    os.kill(first, signal.SIGKILL)
    said = person.run_controller("ensure")
    assert said.returncode == 0, said.stderr
    assert person.controller != first
    assert f"controller started: pid {person.controller}" in said.stdout
    assert read_intent(person.run) == asked
    assert len(person.ledger("start")) == 1  # failures are forgiven by start alone
    os.kill(person.controller, signal.SIGKILL)
    assert person.run_controller("stop", "--drain").returncode == 0
    assert (
        "stopped, as asked" in person.run_controller("ensure").stdout
    )  # a stopped run is not revived
    view = read_lease(person.run.controller_lease)
    assert view is not None
    assert view.ended is not None


def test_without_a_run_there_is_nothing_to_ensure(person: Person) -> None:
    said = person.run_controller("ensure")
    assert said.returncode == 0
    assert "no run was ever started" in said.stdout
    assert not person.run.root.exists()


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (Mode.DRAIN, "the run is stopping"),
        (Mode.STOPPED, "stopped, as asked"),
        (Mode.DONE, "the run is done"),
        (Mode.PAUSED, "paused until you type start (an administrator holds job 17)"),
    ],
)
def test_what_is_not_to_run_is_not_started(person: Person, mode: Mode, why: str) -> None:
    reason = "an administrator holds job 17" if mode is Mode.PAUSED else ""
    write_intent(person.run, DesiredRun(mode, 2, "local", "r", "x", reason=reason), 0.0)
    said = person.run_controller("ensure")
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "r", "x"), 0.0)
    assert said.returncode == 0
    assert why in said.stdout
    assert not person.run.controller_lease.exists()


def test_a_release_that_is_gone_is_said(person: Person) -> None:
    write_intent(person.run, DesiredRun(Mode.RUN, 2, "local", "gone", "x"), 0.0)
    said = person.run_controller("ensure")
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "gone", "x"), 0.0)
    assert said.returncode == 9
    assert "gone is missing" in said.stderr


def test_the_lines_for_cron_and_systemd_name_this_config(person: Person) -> None:
    said = person.run_controller("ensure", "--print-units")
    assert said.returncode == 0
    assert "*/5 * * * * cd " in said.stdout
    assert str(person.config) in said.stdout
    assert "~/.config/systemd/user/daddy-tiny.timer" in said.stdout


ARGV = ["/opt/python 3/bin/python", "-m", "x.run_controller", "ensure", "--config", "/a/100%.json"]


def test_the_crontab_line_runs_the_command_every_five_minutes() -> None:
    line = crontab_line(ARGV, "/shared/a da", "/shared/a da/ensure.log")
    assert line.startswith("*/5 * * * * cd '/shared/a da' && ")
    command = line.replace("\\%", "%").split("&& ", 1)[1].split(" >> ")[0]
    assert shlex.split(command) == ARGV


def test_a_per_cent_sign_does_not_end_the_command() -> None:
    assert "100\\%.json" in crontab_line(ARGV, "/", "/l")


def test_the_systemd_units_say_the_same() -> None:
    text = render_units(ARGV, "/shared/100%h", "/l", "slim_run")
    service = text[
        text.index("[Unit]") : text.index("# ~/.config/systemd/user/daddy-slim_run.timer")
    ]
    parsed = configparser.RawConfigParser()
    parsed.read_string(service)
    assert parsed["Service"]["execstart"].startswith('"/opt/python 3/bin/python" "-m"')
    assert '"/a/100%%.json"' in parsed["Service"]["execstart"]
    assert parsed["Service"]["workingdirectory"] == "/shared/100%%h"
    assert parsed["Service"]["killmode"] == "process"  # the daemon outlives the service
    assert "OnUnitActiveSec=5min" in text


def put(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a host without cron, whose files are below a folder."""
    monkeypatch.setattr(ensure, "_crontab", lambda: None)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tmp_path


def told(root: Path, user: str = "ada", *, workers: bool | None = None) -> str:
    return "; ".join(describe_survival(user, workers=workers, root=root))


def test_linger_is_what_keeps_a_daemon_after_logout(host: Path) -> None:
    put(host, "var/lib/systemd/linger/ada")
    assert "linger" in told(host)
    assert "linger" not in told(host, "bob")


def test_kill_user_processes_is_found_where_a_later_file_sets_it(host: Path) -> None:
    put(host, "etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\nKillUserProcesses=no\n")
    assert "KillUserProcesses" not in told(host)
    put(host, "etc/systemd/logind.conf.d/50-site.conf", "[Login]\nKillUserProcesses=yes\n")
    assert told(host).startswith("nothing keeps the controller alive here: logging out ends it")
    assert "KillUserProcesses=yes" in told(host)
    put(host, "etc/systemd/logind.conf.d/60-bad.conf", "no section\n")
    assert "KillUserProcesses" not in told(host)


@pytest.mark.parametrize(
    ("answer", "crontab"),
    [
        ("echo '*/5 * * * * run_controller ensure --config x'", "*/5 * * * * run_controller"),
        ("echo 'no crontab for ada' >&2; exit 1", ""),
        ("echo 'You (ada) are not allowed to use this program (crontab)' >&2; exit 1", None),
    ],
)
def test_cron_counts_only_for_those_who_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, crontab: str | None
) -> None:
    put(tmp_path, "crontab", f"#!/bin/sh\n{answer}\n")
    (tmp_path / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert ("your crontab runs ensure" in told(tmp_path)) == bool(crontab)
    assert ("shows the line for your crontab" in told(tmp_path)) == (crontab == "")


def test_the_jobs_are_told_as_keepers_where_they_make_the_passes(host: Path) -> None:
    assert "the jobs make the passes" in told(host, workers=True)
    assert "nothing starts it again after a reboot" in told(host)


def test_looking_at_this_host_changes_nothing_and_does_not_fail() -> None:
    assert describe_survival("nobody-of-that-name", workers=False)
