"""Pure: the lines that make ``ensure`` run every few minutes: for cron, and as a systemd timer.

Printed, never installed: what runs on a login host by itself is its person's decision.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

MINUTES = 5
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


def crontab_line(argv: Sequence[str], folder: str, log: str) -> str:
    """The line for ``crontab -e``; a per cent sign would end the command there."""
    command = f"cd {shlex.quote(folder)} && {shlex.join(argv)} >> {shlex.quote(log)} 2>&1"
    return f"*/{MINUTES} * * * * {command}".replace("%", "\\%")


def units(argv: Sequence[str], folder: str, log: str, name: str) -> str:
    """Everything that ``ensure --print-units`` prints."""
    unit = f"daddy-{name}"
    service = _SERVICE.format(name=name, folder=folder, command=_systemd(argv))
    timer = _TIMER.format(name=name, minutes=MINUTES)
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
            service,
            f"# ~/.config/systemd/user/{unit}.timer",
            timer,
        ]
    )


def _systemd(argv: Sequence[str]) -> str:
    """Quoted as systemd reads it: double quotes, no shell, % and $ doubled."""
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in argv)
    return " ".join(f'"{word}"'.replace("%", "%%").replace("$", "$$") for word in escaped)
