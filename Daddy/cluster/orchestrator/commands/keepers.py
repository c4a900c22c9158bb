"""What will keep a daemon alive on this host, and what may end it: looked at, never changed.

``look`` reads a handful of small files; ``tell`` (no I/O) puts them into sentences.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.cluster.orchestrator.commands.forecast import human
from Daddy.core.errors import DaddyError
from Daddy.core.humanize import format_duration
from Daddy.core.process import run

REAPERS = frozenset({"arbiter2", "arbiter", "earlyoom", "systemd-oomd", "nohang", "loginreaper"})
"""Programs that login nodes run to end what uses too much."""
_SMALL_MEMORY = 200_000_000
"""Under this many bytes a limit comes near what a controller and a listing of jobs take."""
_CRON_TIMEOUT_S = 3.0
ENSURE = "run_controller ensure"


@dataclass(frozen=True, slots=True)
class Keepers:
    """What was found. None: cannot be told here."""

    systemd: bool = False
    linger: bool = False
    kills_at_logout: bool = False
    crontab: bool = False
    """Whether this user may have a crontab."""
    ensured: bool = False
    """Whether it already says ``ensure``."""
    memory_limit: int | None = None
    cpu_seconds: int | None = None
    tasks_limit: int | None = None
    reapers: tuple[str, ...] = ()


def look(user: str, root: Path = Path("/")) -> Keepers:
    """This host as it is; ``root`` is where its files are."""
    allowed = _may_cron(user, root)
    cpu = resource.getrlimit(resource.RLIMIT_CPU)[0]
    return Keepers(
        systemd=(root / "run/systemd/system").is_dir(),
        linger=(root / "var/lib/systemd/linger" / user).exists(),
        kills_at_logout=_kills_at_logout(root),
        crontab=allowed,
        ensured=allowed and ENSURE in _crontab(),
        memory_limit=_cgroup(root, "memory.max", "memory.limit_in_bytes"),
        cpu_seconds=None if cpu == resource.RLIM_INFINITY else cpu,
        tasks_limit=_cgroup(root, "pids.max", "pids.max"),
        reapers=tuple(sorted(_running(root) & REAPERS)),
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
    allow, deny = root / "etc/cron.allow", root / "etc/cron.deny"
    if allow.exists():
        return user in _text(allow).split()
    return user not in _text(deny).split()


def _crontab() -> str:
    with contextlib.suppress(DaddyError):
        return run(["crontab", "-l"], _CRON_TIMEOUT_S).stdout
    return ""


def _cgroup(root: Path, new: str, old: str) -> int | None:
    """The smallest limit of that name on our control group and those above it."""
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        base = root / "sys/fs/cgroup"
        base, name = (base, new) if not controllers else (base / controllers, old)
        folder = base / place.strip("/")
        for above in (folder, *folder.parents):
            if above == base.parent:
                break
            text = _text(above / name).strip()
            if text.isdigit() and int(text) < 1 << 60:
                limits.append(int(text))
    return min(limits, default=None)


def _running(root: Path) -> set[str]:
    """Names of the programs that run here, as far as we may see them."""
    return set(_names(root / "proc"))


def _names(proc: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(proc):
            if entry.name.isdigit():
                yield _text(Path(entry.path) / "comm").strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def tell(found: Keepers, *, workers: bool | None) -> list[str]:
    """Sentences: first what keeps the daemon alive here, then what may end it.

    ``workers``: whether the jobs make the passes when it is gone; None: not known yet.
    """
    keeps = []
    if found.linger:
        keeps.append("systemd lets your processes linger after logout")
    if found.ensured:
        keeps.append("your crontab says ensure")
    if workers:
        keeps.append("the jobs make the passes when it is gone")
    if keeps:
        lines = ["kept alive by: " + "; ".join(keeps)]
    elif found.kills_at_logout and found.systemd:
        lines = ["nothing keeps the controller alive here: logging out ends it"]
    else:
        lines = ["it survives logout; nothing starts it again after a reboot"]
    return [*lines, *_dangers(found), *_advice(found)]


def _dangers(found: Keepers) -> Iterator[str]:
    if found.kills_at_logout and found.systemd and not found.linger:
        yield "logind says KillUserProcesses=yes: what you started ends with your last login"
    if found.memory_limit is not None and found.memory_limit < _SMALL_MEMORY:
        yield f"its control group allows {human(found.memory_limit)} of memory in all"
    if found.cpu_seconds is not None:
        yield f"a process may use {format_duration(found.cpu_seconds)} of CPU time here (ulimit -t)"
    if found.reapers:
        yield f"{', '.join(found.reapers)} watches here and may end what looks busy"


def _advice(found: Keepers) -> Iterator[str]:
    if found.ensured:
        return
    if found.linger is False and found.systemd and found.kills_at_logout:
        yield "loginctl enable-linger lets it outlive your login, where the site allows that"
    if found.crontab:
        yield "to have it started again: ensure --print-units shows the line for your crontab"
    elif found.systemd:
        yield "to have it started again: ensure --print-units shows a systemd user timer"


def user_name(environ: Mapping[str, str]) -> str:
    """Who we are on this host."""
    return environ.get("USER") or environ.get("LOGNAME") or str(os.getuid())
