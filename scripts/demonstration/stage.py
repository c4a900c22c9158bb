"""Starts every part of the system on one machine, by the commands that a person would type.

All parts are ended when the stage closes, also after Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core import host_and_processes, run_subprocess
from Daddy.core.errors import SchedulerError
from Daddy.core.humanize import format_duration
from Daddy.core.load_config import CHECKOUT, SITES, load_config, run_paths
from Daddy.core.run_paths import RunPaths
from scripts.demonstration.login_node import LoginNode, start_login_node, stop_login_node

_GRACE_S = 5.0
_CONTROLLER = [sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller"]
_PULL_EVERY_S = 2
_CONTROLLER_S = 600.0
"""Longest wait for a command of the controller; on a busy machine `stop` takes minutes."""


@contextmanager
def fresh_run(keep: Path | None, site: str) -> Iterator[tuple[Path, RunPaths]]:
    """Yield a folder (``keep``, or a temporary one) and the paths of a new run in it."""
    with tempfile.TemporaryDirectory(prefix="daddy-soak-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        shutil.rmtree(folder / "run", ignore_errors=True)
        paths = run_paths(load_config(None, {"run_dir": str(folder / "run")}, {}, site))
        paths.events.mkdir(parents=True)
        yield folder, paths


@dataclass(slots=True)
class Stage:
    """Starts and ends the parts of the system; a context manager."""

    run: RunPaths
    site: str
    slurm: bool
    headless: bool
    node: LoginNode = field(init=False)
    viewer: host_and_processes.ProcessId = field(init=False)
    _exit: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is KeyboardInterrupt:
            print("\ninterrupted: ending every part, up to half a minute", file=sys.stderr)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would leave parts running
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._exit.close()

    @property
    def laptop(self) -> Path:
        """The folder of the laptop's weights and events."""
        return self.run.root / "laptop"

    @property
    def token(self) -> Path:
        """The file of this run's stream token."""
        return self.run.stream / "token"

    def start_login_node(self) -> None:
        """Start an sshd on this machine, and with ``slurm`` a Slurm cluster."""
        folder = self.run.root.with_name(f"{self.run.root.name}-login")
        self._exit.callback(stop_login_node, LoginNode(folder))
        self.node = start_login_node(folder, slurm=self.slurm)

    def start_viewer(self, port: int, *options: str, **env: str) -> None:
        """Start the viewer ``tunnel_server``; without a window where ``headless``."""
        argv = [sys.executable, "-m", "Daddy.streaming.tunnel_server", "--port", str(port)]
        argv += ["--token", str(self.token), "--record-events", str(self.run.events)]
        argv += ["--screenshot", str(self.run.root / "viewer.png")]
        argv += [*options, *(["--headless"] if self.headless else [])]
        self.viewer = self._start("viewer", argv, **env)

    def end_viewer(self) -> None:
        """End the viewer while agents still play, so that its screenshot shows them."""
        host_and_processes.terminate_tree(self.viewer, _GRACE_S)

    def open_tunnel(self, port: int) -> None:
        """Forward the login node's port to the viewer's by ``ssh -R``."""
        if self.node.by_ssh:
            forward = f"{self.node.remote_port}:localhost:{port}"
            options = ("-N", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes")
            self._start("tunnel", self.node.ssh(*options, "-R", forward))

    def start_controller(self, port: int, time_limit_s: float | None = None) -> None:
        """Run ``run_controller start`` on the login node, which starts the daemon.

        ``time_limit_s``: the jobs' time limit (default: that of the site profile).
        """
        self._exit.callback(self._stop_controller, "--now")
        target = self.node.remote_port if self.node.by_ssh else port
        env = {"DADDY_TRAINING__STREAM_PORT": str(target)}
        if time_limit_s:
            env["DADDY_SLURM__TIME_LIMIT"] = format_duration(time_limit_s)
        result = self._controller("start", "--yes", "--ddp-world-size", "4", **env)
        print(result.stdout, end="")
        if result.returncode:
            raise SchedulerError(
                f"the controller did not start: {result.stderr.strip()}", "see the message above"
            )

    def stop_controller(self) -> str:
        """Run ``run_controller stop`` and return its output; jobs write a checkpoint first."""
        return self._stop_controller()

    def status(self) -> str:
        """Return the output of ``run_controller status`` and of ``Daddy.weights.status``."""
        weights = [sys.executable, "-m", "Daddy.weights.status", str(self.run.root)]
        return self._controller("status").stdout + self.node.run(weights, _CONTROLLER_S).stdout

    def start_laptop(self) -> None:
        """Run ``sync_weights.sh pull`` every few seconds, and play with the pulled weights."""
        shared = self.run.shared_weights
        if self.node.by_ssh:
            weights = self.laptop / "shared_weights"
            script = str(CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh")
            argv = [script, "pull", "", str(weights), str(_PULL_EVERY_S)]
            self._start("sync", argv, SYNC_EVENTS_DIR=str(self.run.events), **self._sync(shared))
        else:
            weights = shared
        argv = [sys.executable, "-m", "Daddy.run_actors_only", "--shared-dir", str(weights)]
        argv += ["--num-envs", "1", "--device", "cpu", "--user-id", "laptop", "--cartridge"]
        argv += ["--run-dir", str(self.laptop), "--wait-seconds", "900"]
        self._start("laptop", argv)

    def _sync(self, shared: Path) -> dict[str, str]:
        return {
            "SYNC_CLUSTER_HOST": "login",
            "SYNC_CLUSTER_USER": str(self.node.facts["user"]),
            "SYNC_SSH_CONFIG": self.node.ssh_config,
            "SYNC_REMOTE_DIR": str(shared),
        }

    def _start(self, name: str, argv: Sequence[str], **env: str) -> host_and_processes.ProcessId:
        log = self.run.logs / f"{name}.log"
        settings = {**os.environ, "PATH": self.node.path, "PYTHONUNBUFFERED": "1", **env}
        process = run_subprocess.start_background(argv, log_path=log, env=settings, cwd=CHECKOUT)
        self._exit.callback(host_and_processes.terminate_tree, process, _GRACE_S)
        return process

    def _controller(self, command: str, *options: str, **env: str) -> run_subprocess.Completed:
        site = ["--site", self.site] if (SITES / f"{self.site}.json").exists() else []
        root = self.run.root  # the copy of a run that is thrown away does not belong into the home
        env |= {"DADDY_RUN_DIR": str(root), "DADDY_MIRROR__FOLDER": str(root / "mirrors")}
        return self.node.run([*_CONTROLLER, command, *site, *options], _CONTROLLER_S, env)

    def _stop_controller(self, *options: str) -> str:
        if not self.run.controller.is_dir():
            return ""
        return self._controller("stop", *options).stdout
