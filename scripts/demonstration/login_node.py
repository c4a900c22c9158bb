"""Starts the demo's login node: the test cluster's sshd, or this machine itself.

With sshd and rsync the login node's commands run through ssh. Without them the same commands run
directly, and the summary has the transports ``local`` and ``spool``.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_subprocess import Completed, run_command

TESTBED = CHECKOUT / "cluster" / "testbed"
_START_S = 600.0
"""Longest start in seconds: the first one downloads and unpacks Slurm's packages."""


@dataclass(frozen=True, slots=True)
class LoginNode:
    """Runs commands on the login node; ``facts`` is empty where that is this machine."""

    folder: Path
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_ssh(self) -> bool:
        return bool(self.facts)

    @property
    def ssh_config(self) -> str:
        return str(self.facts["ssh_config"])

    @property
    def remote_port(self) -> int:
        return int(self.facts.get("remote_port", 9999))

    @property
    def path(self) -> str:
        """PATH with the programs that were unpacked for the test cluster."""
        return f"{self.facts.get('path', '')}:{os.environ['PATH']}".strip(":")

    def ssh(self, *options: str) -> list[str]:
        """Return an ssh command line to the login node."""
        return ["ssh", "-F", self.ssh_config, *options, "login"]

    def run(
        self, argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a command in the checkout, on the login node."""
        if not self.by_ssh:
            return run_command(argv, timeout_s, cwd=CHECKOUT, env={**os.environ, **(env or {})})
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in (env or {}).items())
        line = f"cd {shlex.quote(str(CHECKOUT))} && {settings} {shlex.join(argv)}"
        ssh_env = {**os.environ, "PATH": self.path}
        return run_command([*self.ssh("-o", "BatchMode=yes"), line], timeout_s, env=ssh_env)


def start_login_node(folder: Path, *, slurm: bool) -> LoginNode:
    """Start the test cluster's login node, with ``slurm`` also Slurm; else use this machine.

    Raises SchedulerError where ``slurm`` is requested and does not start.
    """
    options = ["--dir", str(folder), "--json", *([] if slurm else ["--login-only"])]
    result = run_command([str(TESTBED / "up"), *options], _START_S, show_progress=True)
    if result.returncode == 0:
        return LoginNode(folder, json.loads(result.stdout))
    if slurm:
        raise SchedulerError("the test cluster did not start", "see the message above")
    print("no login node (see above): all commands run directly on this machine", file=sys.stderr)
    return LoginNode(folder)


def stop_login_node(node: LoginNode) -> None:
    """Stop the login node's test cluster; its logs stay."""
    run_command([str(TESTBED / "down"), "--dir", str(node.folder)], 120.0)
