"""``ensure`` and ``once``: keep a controller alive from cron, or make one pass without any.

``ensure`` obeys the intent and never changes it: a run that is stopped, done or paused stays so.
Lines for cron and systemd are printed, never installed, and a host's habits (linger, logout) are
told, never changed: programs on a login host are their person's decision.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.cluster.orchestrator import tenure
from Daddy.cluster.orchestrator.commands.request import Request, frozen
from Daddy.cluster.orchestrator.commands.serve import launch
from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.records import Intent, Mode
from Daddy.cluster.orchestrator.single_pass import one_pass
from Daddy.core.clock import SystemClock
from Daddy.core.config import CHECKOUT, run_paths
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.process import run as run_program

MINUTES = 5
_ENSURE = "run_controller ensure"
_CRON_TIMEOUT_S = 3.0
_WHY_NOT = {
    Mode.DRAIN: "a stop was said: say it again if it was interrupted",
    Mode.NOW: "a stop was said: say it again if it was interrupted",
    Mode.STOPPED: "the run is stopped, as asked",
    Mode.DONE: "the run is done",
    Mode.PAUSED: "the run is paused until you say start",
}
_SERVICE = """\
[Unit]
Description=Keep the controller of {name} alive

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={command}
KillMode=process
SuccessExitStatus=0
"""
_TIMER = """\
[Unit]
Description=Look after the controller of {name}

[Timer]
OnBootSec=1min
OnUnitActiveSec={minutes}min
AccuracySec=30s

[Install]
WantedBy=timers.target
"""


def once(request: Request) -> int:
    """One pass under the controller's lease; ControllerAliveError where a controller lives."""
    config = request.load()
    run = run_paths(config)
    intent = read_intent(run)
    if intent is None:
        raise FileError(f"no run was ever started in {run.root}", "say start first")
    print(one_pass(run, frozen(run, intent, config)[0], SystemClock()))
    return ExitCode.DONE


def ensure(request: Request, *, print_units: bool) -> int:
    """Start a controller where the intent wants one and none is alive."""
    print(_units_for(request) if print_units else _ensured(request))
    return ExitCode.DONE


def _ensured(request: Request) -> str:
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    intent = read_intent(run)
    if intent is None:
        return f"nothing to ensure: no run was ever started in {run.root}"
    if intent.mode is not Mode.RUN:
        return f"nothing is started: {_why_not(intent)}"
    view = tenure.living(run, clock)
    if view is not None:
        return f"a controller is alive: {tenure.named(view.holder)}, term {view.term}"
    release, _ = frozen(run, intent, config)
    if not release.config.exists():
        raise FileError(f"release {intent.release} is gone from {run.releases}", "say start")
    try:
        if not intent.daemon:
            return str(one_pass(run, release, clock))
        told = launch(run, release)
    except ControllerAliveError as error:  # somebody else's ensure was faster
        return error.message
    return f"controller started: pid {told['pid']} on {told['host']}, term {told['term']}"


def _why_not(intent: Intent) -> str:
    reason = f" ({intent.reason})" if intent.mode is Mode.PAUSED and intent.reason else ""
    return f"{_WHY_NOT[intent.mode]}{reason}"


def _units_for(request: Request) -> str:
    """The crontab line and the systemd units that say ``ensure`` for this run."""
    config = request.load()
    argv = [sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller", "ensure"]
    if request.config is not None:
        argv += ["--config", str(Path(request.config).resolve())]
    if site := request.site or os.environ.get("DADDY_SITE"):
        argv += ["--site", site]
    log = run_paths(config).logs / "ensure.log"
    return units(argv, str(CHECKOUT), str(log), config.run_name)


def crontab_line(argv: Sequence[str], folder: str, log: str) -> str:
    """The line for ``crontab -e``; a per cent sign would end the command there."""
    command = f"cd {shlex.quote(folder)} && {shlex.join(argv)} >> {shlex.quote(log)} 2>&1"
    return f"*/{MINUTES} * * * * {command}".replace("%", "\\%")


def units(argv: Sequence[str], folder: str, log: str, name: str) -> str:
    """Everything that ``ensure --print-units`` prints."""
    unit = f"daddy-{name}"
    return "\n".join(
        [
            "# with cron: crontab -e, and add this line",
            crontab_line(argv, folder, log),
            "",
            "# with systemd: two files, then",
            f"#   systemctl --user daemon-reload && systemctl --user enable --now {unit}.timer",
            "#   loginctl enable-linger   (so that it runs while you are logged out)",
            "",
            f"# ~/.config/systemd/user/{unit}.service",
            _SERVICE.format(name=name, folder=folder, command=_systemd(argv)),
            f"# ~/.config/systemd/user/{unit}.timer",
            _TIMER.format(name=name, minutes=MINUTES),
        ]
    )


def _systemd(argv: Sequence[str]) -> str:
    """Quoted as systemd reads it: double quotes, no shell, % and $ doubled."""
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in argv)
    return " ".join(f'"{word}"'.replace("%", "%%").replace("$", "$$") for word in escaped)


@dataclass(frozen=True, slots=True)
class Host:
    """Habits of a login host that decide whether a daemon survives there."""

    systemd: bool = False
    linger: bool = False
    kills_at_logout: bool = False
    crontab: bool = False
    """This user may have a crontab."""
    ensured: bool = False
    """The crontab says ``ensure`` already."""


def read_host(user: str, root: Path = Path("/")) -> Host:
    """This host as it is; ``root`` is where its files are."""
    allowed = _may_cron(user, root)
    return Host(
        systemd=(root / "run/systemd/system").is_dir(),
        linger=(root / "var/lib/systemd/linger" / user).exists(),
        kills_at_logout=_kills_at_logout(root),
        crontab=allowed,
        ensured=allowed and _ENSURE in _crontab(),
    )


def _kills_at_logout(root: Path) -> bool:
    """Logind's KillUserProcesses; later files win, the built-in default is no."""
    said = "no"
    for folder in ("usr/lib/systemd", "etc/systemd"):
        files = [root / folder / "logind.conf"]
        files += sorted((root / folder / "logind.conf.d").glob("*.conf"))
        for file in files:
            for line in _text(file).splitlines():
                key, _, value = line.partition("=")
                if key.strip() == "KillUserProcesses":
                    said = value.strip().lower()
    return said in ("yes", "true", "1", "on")


def _may_cron(user: str, root: Path) -> bool:
    if shutil.which("crontab") is None:
        return False
    allow = root / "etc/cron.allow"
    if allow.exists():
        return user in _text(allow).split()
    return user not in _text(root / "etc/cron.deny").split()


def _crontab() -> str:
    with contextlib.suppress(DaddyError):
        return run_program(["crontab", "-l"], _CRON_TIMEOUT_S).stdout
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def survival(host: Host, *, workers: bool | None) -> list[str]:
    """Sentences on the daemon's life here: its keepers first, then its dangers and a remedy.

    ``workers``: the jobs make the passes when it is gone; None: not known yet.
    """
    keepers = (
        (host.linger, "systemd lets your processes linger after logout"),
        (host.ensured, "your crontab says ensure"),
        (workers, "the jobs make the passes when it is gone"),
    )
    killed = host.kills_at_logout and host.systemd
    if any(holds for holds, _ in keepers):
        lines = ["kept alive by: " + "; ".join(said for holds, said in keepers if holds)]
    elif killed:
        lines = ["nothing keeps the controller alive here: logging out ends it"]
    else:
        lines = ["it survives logout; nothing starts it again after a reboot"]
    if killed and not host.linger:
        lines.append("logind says KillUserProcesses=yes: your last logout ends what you started")
        lines.append("loginctl enable-linger lets it outlive your login, where the site allows it")
    if not host.ensured and (host.crontab or host.systemd):
        where = "the line for your crontab" if host.crontab else "a systemd user timer"
        lines.append(f"to have it started again: ensure --print-units shows {where}")
    return lines
