"""What keeps a daemon alive on a host, and what may end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands import keepers
from Daddy.cluster.orchestrator.commands.keepers import Keepers, look, tell


def put(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without cron whose files are under a folder."""
    monkeypatch.setattr(keepers.shutil, "which", lambda _name: None)
    put(tmp_path, "proc/self/cgroup", "0::/user.slice/user-7.slice/session-1.scope\n")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tmp_path


def test_linger_is_what_keeps_a_daemon_after_logout(host: Path) -> None:
    put(host, "var/lib/systemd/linger/ada")
    assert look("ada", host).linger
    assert not look("bob", host).linger
    assert "linger" in tell(look("ada", host), workers=None)[0]


def test_kill_user_processes_is_found_where_a_later_file_sets_it(host: Path) -> None:
    put(host, "etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\nKillUserProcesses=no\n")
    assert not look("ada", host).kills_at_logout
    put(host, "etc/systemd/logind.conf.d/50-site.conf", "[Login]\nKillUserProcesses=yes\n")
    told = tell(look("ada", host), workers=None)
    assert told[0] == "nothing keeps the controller alive here: logging out ends it"
    assert any("KillUserProcesses=yes" in line for line in told)


def test_the_smallest_limit_on_the_way_up_counts(host: Path) -> None:
    put(host, "sys/fs/cgroup/user.slice/memory.max", "8000000000\n")
    put(host, "sys/fs/cgroup/user.slice/user-7.slice/memory.max", "100000000\n")
    put(host, "sys/fs/cgroup/user.slice/user-7.slice/session-1.scope/memory.max", "max\n")
    found = look("ada", host)
    assert found.memory_limit == 100_000_000
    assert any("100.0 MB of memory" in line for line in tell(found, workers=None))


def test_a_known_reaper_is_named(host: Path) -> None:
    put(host, "proc/17/comm", "arbiter2\n")
    put(host, "proc/18/comm", "bash\n")
    found = look("ada", host)
    assert found.reapers == ("arbiter2",)
    assert any("arbiter2 watches here" in line for line in tell(found, workers=None))


def test_cron_counts_only_for_those_who_may(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(keepers.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(keepers, "_crontab", lambda: "*/5 * * * * run_controller ensure --config x")
    put(tmp_path, "etc/cron.deny", "bob\n")
    assert look("ada", tmp_path).ensured
    assert not look("bob", tmp_path).crontab
    put(tmp_path, "etc/cron.allow", "carol\n")
    assert not look("ada", tmp_path).crontab


def test_the_jobs_are_told_as_keepers_where_they_make_the_passes() -> None:
    assert "the jobs make the passes" in tell(Keepers(), workers=True)[0]
    assert "nothing starts it again after a reboot" in tell(Keepers(), workers=None)[0]


def test_looking_at_this_host_changes_nothing_and_does_not_fail() -> None:
    assert tell(look("nobody-of-that-name"), workers=False)
