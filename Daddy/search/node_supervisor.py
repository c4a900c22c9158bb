"""Entry: keeps two nodes and their API until SIGTERM, or until their lifetime is over.

``python -m Daddy.docker_launch start`` starts it in the background. It leaves nothing: the kernel
ends the nodes with this process, also when it is killed, and all their mounts with them. A node
that dies is started again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, decimal_number
from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, SandboxError
from Daddy.core.host_and_processes import (
    current_process,
    host_name,
    identify_process,
    signal_descendants,
)
from Daddy.core.humanize import printable_line
from Daddy.core.lease import Lease, end_term, is_holder_alive, read_lease, remove_term
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_subprocess import Child, run_command, spawn_child
from Daddy.core.stop_conditions import event_on_signals
from Daddy.search.node_plan import (
    CREDENTIALS,
    NODES,
    RANKS,
    Network,
    Node,
    NodeFiles,
    hosts_text,
    network_argv,
    node_argv,
    node_environment,
)
from Daddy.search.nodes import node_paths

HOURS = 12.0
"""Lifetime: nodes that were forgotten end by themselves."""
_POLL_S = 0.2
_PAUSE_S = 1.0
"""Seconds between the end of a node and its next start."""
_START_S = 0.01
_TRIAL_S = 60.0
_PROBE = "see python -m Daddy.sandbox probe"
_ETC = "alternatives ca-certificates group ld.so.cache localtime nsswitch.conf passwd pki ssl"


def read_files(runs_folder: Path, home: Path, network: Network, *, credentials: bool) -> NodeFiles:
    """Return the paths that nodes see. ConfigError if the runs folder would show the home."""
    if home.is_relative_to(runs_folder):
        raise ConfigError(
            f"nodes would see your whole home: the runs folder {runs_folder} contains {home}",
            "use a --run-dir inside of it, such as runs",
        )
    system = ["--ro-bind", "/usr", "/usr"]
    for path in (Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64")):
        if path.is_symlink():
            system += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            system += ["--ro-bind", str(path), str(path)]
    for name in [*_ETC.split(), *(["resolv.conf"] if network == "host" else [])]:
        system += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    pythons = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    shown = {path for path in {*pythons, CHECKOUT} if not path.is_relative_to("/usr")}
    paths = node_paths(runs_folder)
    return NodeFiles(
        system=tuple(system),
        read_only=tuple(map(str, sorted(shown))),  # a folder before those inside of it
        home=str(home),
        credentials=tuple(name for name in CREDENTIALS if credentials and (home / name).exists()),
        runs_folder=str(runs_folder),
        state=str(paths.root),
        hosts=str(paths.hosts),
    )


def hold_nodes(folder: Path) -> Lease:
    """Take the lease of the nodes, also from a supervisor that was killed. ConfigError if held."""
    view = read_lease(folder)
    if view and view.ended is None and is_holder_alive(view.holder) is False:
        end_term(folder, view.term, "its process is gone", durable=False)
    holder = {**asdict(current_process()), "host": host_name()}
    lease = Lease.acquire(folder, holder, durable=False)
    if lease is None:
        raise ConfigError("another supervisor holds these nodes", "use `status`, or `stop` it")
    remove_term(folder, lease.term - 1)
    return lease


class Supervisor:
    """Keeps the network and the nodes, and restarts a node that died. Use it in one thread."""

    def __init__(
        self, files: NodeFiles, network: Network, lease: Lease, clock: Clock, ends: float
    ) -> None:
        self._files, self._kind, self._lease, self._clock = files, network, lease, clock
        self._ends = ends
        self._paths = node_paths(Path(files.runs_folder))
        self._children: dict[str, Child] = {}
        self._pids: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def keep_nodes(self, stop: threading.Event) -> str:
        """Keep the nodes; return the reason of their end. SandboxError if none can be started."""
        try:
            self._start_network()
            while not stop.is_set() and self._clock.now() < self._ends:
                self._keep()
                self._clock.wait(stop, _POLL_S)
            return "stopped" if stop.is_set() else "the lifetime is over"
        finally:
            self._end_all()

    def _start_network(self) -> None:
        """Start the network, and try a node in it: bubblewrap prints its errors in there."""

        def argv(info: int) -> list[str]:
            return network_argv(self._kind, self._files.system, info)

        self._spawn("network", argv, self._paths.supervisor_log)
        trial = run_command(self._argv(NODES[0], None, ["true"]), _TRIAL_S, die_with_us=True)
        if trial.returncode:
            error = printable_line(trial.stderr.strip())
            raise SandboxError(f"a node cannot be started: {error}", _PROBE)

    def _keep(self) -> None:
        """Start each node that does not run, a pause after its end."""
        if self._children["network"].wait(0):
            raise SandboxError("the network of the nodes was ended", "start them again")
        now = self._clock.monotonic()
        for node in NODES:
            child = self._children.get(node.name)
            if child and child.wait(0):
                print(f"{node.name} ended by {child.exit_code}: started again", flush=True)
                del self._children[node.name], self._pids[node.name]
                self._due[node.name] = now + _PAUSE_S
            elif child is None and now >= self._due.get(node.name, now):
                self._start(node)

    def _start(self, node: Node) -> None:
        command = ["sleep", "infinity"]
        if node.rank is None:
            command = [sys.executable, "-m", "Daddy.search.coordinator"]
            command += ["--run-dir", self._files.runs_folder]
        self._spawn(node.name, lambda info: self._argv(node, info, command), self._paths.log(node))
        processes = {
            node.name: [process.pid, process.created]
            for node in NODES
            if (process := identify_process(self._pids.get(node.name, 0)))
        }
        known = {"network": self._kind, "ends": self._ends, "processes": processes}
        self._lease.beat({**known, "credentials": self._files.credentials})

    def _argv(self, node: Node, info: int | None, command: Sequence[str]) -> list[str]:
        variables = node_environment(node, sys.prefix, str(CHECKOUT), len(RANKS))
        network_pid = self._pids["network"]
        return node_argv(node, self._files, variables, network_pid, info, command)

    def _spawn(self, name: str, argv: Callable[[int], list[str]], log: Path) -> None:
        """Start a bubblewrap, and wait until its child has started the first program."""
        readable, writable = os.pipe()
        with os.fdopen(readable, "rb") as info:
            try:
                child = spawn_child(
                    argv(writable),
                    stdout=log,
                    stderr=log,
                    env=os.environ,
                    cwd=Path("/"),
                    keep_open=(writable,),
                )
            finally:
                os.close(writable)
            facts = info.read()
        self._children[name] = child
        pid = int(json.loads(facts)["child-pid"]) if facts else 0
        # The pid comes before the child has mapped its user and left our files.
        while not (pid and signal_descendants(pid, 0)):
            if child.wait(_START_S):
                raise SandboxError(f"{name} cannot be started: see {log}", _PROBE)
        self._pids[name] = pid

    def _end_all(self) -> None:
        """Kill the first process of each node, with which the kernel ends all others."""
        for name, child in reversed(self._children.items()):
            if not child.wait(0) and name in self._pids:
                os.kill(self._pids[name], signal.SIGKILL)
                child.wait(_TRIAL_S)


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="node_supervisor", description="Keep two nodes and their API.")
    parser.add_argument("--run-dir", type=Path, required=True, help="runs folder")
    add_node_flags(parser)
    return parser


def add_node_flags(parser: ArgumentParser) -> None:
    """Add the flags of ``start``, which it passes on."""
    add = parser.add_argument
    add("--network", choices=("none", "host"), default="none", help="outside network (none)")
    add("--no-credentials", action="store_true", help="hide .ssh, .config and the like")
    add("--hours", type=decimal_number(0.0001, 168.0), default=HOURS, help="lifetime in hours (12)")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or the lifetime's end. Exit codes: 2 usage, 3 held, 9 files, 12."""
    args = make_parser().parse_args(argv)
    stop, clock = event_on_signals(signal.SIGTERM, signal.SIGINT), SystemClock()
    runs_folder = args.run_dir.resolve()
    shown = not args.no_credentials
    files = read_files(runs_folder, Path.home(), args.network, credentials=shown)
    paths = node_paths(runs_folder)
    lease = hold_nodes(paths.lease)
    try:
        for node in NODES:
            paths.log(node).unlink(missing_ok=True)
        write_atomic(paths.hosts, hosts_text().encode(), durable=False)
        ends = clock.now() + args.hours * 3600
        reason = Supervisor(files, args.network, lease, clock, ends).keep_nodes(stop)
        print(reason, flush=True)
    finally:
        lease.release("ended")
    return ExitCode.DONE


if __name__ == "__main__":
    raise SystemExit(run_entry(main, private=True))
