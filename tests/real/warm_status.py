"""Runs ``status --json`` in forks of one process that has imported the command.

A test that waits for a state asks for the status again and again, and an import of the command
takes half a second of CPU. Each answer comes from a process of its own, with its own environment.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

_SERVER = """
import json, os, sys
from Daddy.cluster.orchestrator import run_controller, scheduler_factory, slurm_scheduler
from Daddy.cluster.orchestrator.commands import plan, status  # loaded once, for all children

for line in sys.stdin:
    environ, argv = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.clear()
        os.environ.update(environ)
        sys.stdin = open(os.devnull)
        sys.argv = ["run_controller", *argv]
        run_controller.cli()
    os.waitpid(child, 0)
    print("end", flush=True)
"""


class WarmStatus:
    """A process that has imported the command, started with the first question."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._server: subprocess.Popen[str] | None = None

    def ask(self, env: Mapping[str, str], config: Path, *argv: str) -> dict[str, Any]:
        """Return the record that ``run_controller status --json`` prints in this environment."""
        server = self._server = self._server or self._start(env)
        assert server.stdin is not None
        assert server.stdout is not None
        words = ["status", "--json", *argv, "--config", str(config)]
        server.stdin.write(json.dumps([dict(env), words]) + "\n")
        server.stdin.flush()
        told = "".join(takewhile(lambda line: line != "end\n", server.stdout))
        return json.loads(told)

    def _start(self, env: Mapping[str, str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            cwd=self._checkout,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        if self._server is not None:
            self._server.communicate()
