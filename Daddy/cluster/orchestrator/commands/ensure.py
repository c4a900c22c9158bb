"""Implements ``ensure`` (keep a controller alive from cron) and ``once`` (make a single pass).

``ensure`` reads the intent and never changes it: a run that is stopped, done or paused stays so.
Units for cron and systemd are printed and never installed, and host settings (linger, logout) are
reported and never changed, because login-host programs are the person's decision.
"""

import configparser
import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.daemon import launch_controller
from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release
from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.decisions.controller_failover import blind_seconds
from Daddy.cluster.orchestrator.single_pass import make_single_pass
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_subprocess import run_command as run_program

_ENSURE = "run_controller ensure"
_CRON_TIMEOUT_S = 3.0
_WHY_NOT = {
    Mode.DRAIN: "the run is stopping: type stop again if it was interrupted",
    Mode.NOW: "the run is stopping: type stop again if it was interrupted",
    Mode.STOPPED: "the run is stopped, as asked",
    Mode.DONE: "the run is done",
    Mode.PAUSED: "the run is paused until you type start",
}
_UNITS = """\
# with cron: crontab -e, and add this line
{crontab}

# with systemd: two files, then
#   systemctl --user daemon-reload && systemctl --user enable --now daddy-{name}.timer
#   loginctl enable-linger   (so that it runs while you are logged out)

# ~/.config/systemd/user/daddy-{name}.service
[Unit]
Description=Keep the controller of {name} alive

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={command}
KillMode=process

# ~/.config/systemd/user/daddy-{name}.timer
[Unit]
Description=Check the controller of {name}

[Timer]
OnBootSec=1min
OnUnitActiveSec=5min

[Install]
WantedBy=timers.target
"""


def run_once(request: Request) -> int:
    """Make one pass and print its result; raise ControllerAliveError if a controller is alive."""
    config, run = request.find_run()
    intent = read_intent(run)
    if intent is None:
        raise FileError(f"no run was ever started in {run.root}", "type `run_controller start`")
    print(make_single_pass(run, find_release(run, intent, config)[0], SystemClock()))
    return ExitCode.DONE


def run_ensure(request: Request, *, print_units: bool) -> int:
    """Start a controller if the run needs one and none is alive; or print cron, systemd units."""
    print(_units_for(request) if print_units else _ensure_controller(request))
    return ExitCode.DONE


def _ensure_controller(request: Request) -> str:
    (config, run), clock = request.find_run(), SystemClock()
    intent = read_intent(run)
    if intent is None:
        return f"nothing to ensure: no run was ever started in {run.root}"
    if intent.mode is not Mode.RUN:
        reason = f" ({intent.reason})" if intent.reason else ""
        return f"nothing is started: {_WHY_NOT[intent.mode]}{reason}"
    view = controller_lease.find_live_controller(run, clock)
    if view is not None and not blind_seconds(view.beat):
        return f"a controller is alive: {controller_lease.describe(view.holder)}, term {view.term}"
    release, _ = find_release(run, intent, config)
    if not release.config.exists():
        raise FileError(f"release {release.path} is missing", "type `run_controller start`")
    try:
        if not intent.daemon:
            return str(make_single_pass(run, release, clock))
        report = launch_controller(run, release)
    except ControllerAliveError as error:  # another host's ensure was faster
        return error.message
    return f"controller started: pid {report['pid']} on {report['host']}, term {report['term']}"


def _units_for(request: Request) -> str:
    config, run = request.find_run()
    argv = [sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller", "ensure"]
    if request.config is not None:
        argv += ["--config", str(Path(request.config).resolve())]
    if site := request.site or os.environ.get("DADDY_SITE"):
        argv += ["--site", site]
    return render_units(argv, str(CHECKOUT), str(run.logs / "ensure.log"), config.run_name)


def render_units(argv: Sequence[str], folder: str, log: str, name: str) -> str:
    """Return the crontab line and systemd units that run ``argv``; units have % and $ doubled."""
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in argv)
    command = " ".join(f'"{word}"'.replace("%", "%%").replace("$", "$$") for word in escaped)
    crontab = crontab_line(argv, folder, log)
    place = folder.replace("%", "%%")
    return _UNITS.format(crontab=crontab, name=name, folder=place, command=command)


def crontab_line(argv: Sequence[str], folder: str, log: str) -> str:
    """Return the crontab line that runs ``argv`` every 5 minutes; a % gets a backslash."""
    command = f"cd {shlex.quote(folder)} && {shlex.join(argv)} >> {shlex.quote(log)} 2>&1"
    return f"*/5 * * * * {command}".replace("%", "\\%")


def describe_survival(user: str, *, workers: bool | None, root: Path = Path("/")) -> list[str]:
    """Return sentences: programs that keep the daemon alive on this host, dangers, a remedy.

    ``workers``: True if jobs make the controller's passes without a daemon; None: not known yet.
    """
    systemd, crontab = (root / "run/systemd/system").is_dir(), _crontab()
    lingers = (root / "var/lib/systemd/linger" / user).exists()
    ensured, killed = _ENSURE in (crontab or ""), systemd and _kills_at_logout(root)
    protections = (
        (lingers, "systemd lets your processes linger after logout"),
        (ensured, "your crontab runs ensure"),
        (workers, "the jobs make the passes when it is gone"),
    )
    if helps := [text for applies, text in protections if applies]:
        lines = ["kept alive by: " + "; ".join(helps)]
    elif killed:
        lines = ["nothing keeps the controller alive here: logging out ends it"]
    else:
        lines = ["it survives logout; nothing starts it again after a reboot"]
    if killed and not lingers:
        lines.append("logind has KillUserProcesses=yes: your last logout ends your processes")
        lines.append("loginctl enable-linger lets it outlive your login, where the site allows it")
    if not ensured and (crontab is not None or systemd):
        line = "the line for your crontab" if crontab is not None else "a systemd user timer"
        lines.append(f"to have it started again: ensure --print-units shows {line}")
    return lines


def _crontab() -> str | None:
    """Return the user's crontab, "" if it is empty; None if ``crontab -l`` fails."""
    with contextlib.suppress(DaddyError):
        listed = run_program(["crontab", "-l"], _CRON_TIMEOUT_S)
        if listed.returncode == 0 or "no crontab" in listed.stderr:
            return listed.stdout
    return None


def _kills_at_logout(root: Path) -> bool:
    """Return logind's KillUserProcesses from its files below ``root`` (default False)."""
    logind = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error, ValueError, OSError):
        for folder in (root / "usr/lib/systemd", root / "etc/systemd"):
            logind.read([folder / "logind.conf", *sorted(folder.glob("logind.conf.d/*.conf"))])
        return logind.getboolean("Login", "KillUserProcesses", fallback=False)
    return False
