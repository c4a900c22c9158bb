"""The demo's login node: a real sshd beside this machine's programs, or this machine itself.

Where sshd and rsync can be had, what a person types on a login node is typed through ssh.
Where they cannot, the same commands run directly and the summary says ``local`` and ``spool``.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.child_process import Completed, run_command
from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import CHECKOUT

TESTBED = CHECKOUT / "cluster" / "testbed"
_START_S = 600.0
"""Fetching and unpacking Slurm's packages the first time is the slow part."""


@dataclass(frozen=True, slots=True)
class LoginNode:
    """Where commands of the login node are run. ``facts`` is empty when that is this machine."""

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
        """PATH with the programs that were unpacked for the test cluster, where there are any."""
        return f"{self.facts.get('path', '')}:{os.environ['PATH']}".strip(":")

    def ssh(self, *options: str) -> list[str]:
        """An ssh command line to the login node."""
        return ["ssh", "-F", self.ssh_config, *options, "login"]

    def run(
        self, argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a command in the checkout, on the login node."""
        if not self.by_ssh:
            return run_command(argv, timeout_s, cwd=CHECKOUT, env={**os.environ, **(env or {})})
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in (env or {}).items())
        line = f"cd {shlex.quote(str(CHECKOUT))} && {settings} {shlex.join(argv)}"
        known = {**os.environ, "PATH": self.path}
        return run_command([*self.ssh("-o", "BatchMode=yes"), line], timeout_s, env=known)


def raise_login_node(folder: Path, *, slurm: bool) -> LoginNode:
    """Start the test cluster's login node (and its cluster); this machine itself where that fails.

    Raises SchedulerError when Slurm was asked for and cannot be had.
    """
    options = ["--dir", str(folder), "--json", *([] if slurm else ["--login-only"])]
    done = run_command([str(TESTBED / "up"), *options], _START_S, show_progress=True)
    if done.returncode == 0:
        return LoginNode(folder, json.loads(done.stdout))
    if slurm:
        raise SchedulerError("the test cluster did not start", "see the message above")
    print("no login node here, as told above: everything runs directly", file=sys.stderr)
    return LoginNode(folder)


def lower_login_node(node: LoginNode) -> None:
    """Take the test cluster away again; logs stay."""
    run_command([str(TESTBED / "down"), "--dir", str(node.folder)], 120.0)
