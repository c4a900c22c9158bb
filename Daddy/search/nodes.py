"""The two nodes and the API of a runs folder, seen from this machine: state, commands, logs, end.

Their supervisor holds a lease in ``nodes/`` of the runs folder, and its heartbeat names the
processes of the nodes. A command enters a node by itself, so no program of ours waits for
commands inside.
"""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, SandboxError
from Daddy.core.host_and_processes import ProcessId, is_alive, signal_descendants, signal_process
from Daddy.core.humanize import printable_line
from Daddy.core.lease import is_holder_alive, read_lease
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_subprocess import Child, run_interactive, spawn_with_output
from Daddy.core.shared_weights_paths import PathBelow
from Daddy.core.stop_conditions import event_on_signals
from Daddy.search.node_plan import RANKS, Node, enter_argv, node_environment

GRACE_S = 45.0
"""Seconds that commands have to end after a signal: a sweep's driver gives its learners 30."""
_SETTLE_S = 2.0
"""Seconds in which ranks may end by themselves after rank 0: most commands end on all at once."""
MAX_RESTARTS, _RESTART_S = 3, 1.0
_SIGNALLED = 128
"""An exit code above it stands for a signal."""
LINE_BYTES = 4096
"""Longest line of output; the rest of a longer one is another line."""
_POLL_S = 0.05
_BACK_S = 15.0
"""Seconds within which a node that died is there again."""


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The folder of the nodes in a runs folder; they may read it and not write to it."""

    root: Path

    lease = PathBelow("lease")
    """The lease of the supervisor, with the nodes' processes in its heartbeat."""
    hosts = PathBelow("hosts")
    """``/etc/hosts`` of the nodes."""
    supervisor_log = PathBelow("supervisor.log")

    def log(self, node: Node) -> Path:
        return self.root / f"{node.short}.log"


def node_paths(runs_folder: Path) -> NodePaths:
    """Return the folder of the nodes in a runs folder."""
    return NodePaths(runs_folder / "nodes")


@dataclass(frozen=True, slots=True)
class NodesState:
    """The nodes of a runs folder while their supervisor is alive; ``ends`` is wall time."""

    supervisor: ProcessId
    network: str
    ends: float
    credentials: tuple[str, ...]
    processes: Mapping[str, ProcessId]
    """The first process of each node, by the node's name; it may have ended."""

    def process(self, node: Node) -> ProcessId | None:
        """Return the node's first process, None if the node does not run."""
        process = self.processes.get(node.name)
        return process if process and is_alive(process) else None


def read_nodes(runs_folder: Path) -> NodesState | None:
    """Return the state, None if no supervisor runs. ConfigError if it is on another host."""
    view = read_lease(node_paths(runs_folder).lease)
    if view is None or view.ended is not None:
        return None
    alive = is_holder_alive(view.holder)
    if alive is None:
        raise ConfigError(
            f"the nodes of {runs_folder} run on {view.holder.get('host', 'another machine')}",
            "go there, or use another --run-dir",
        )
    if not alive:
        return None
    beat = view.beat
    return NodesState(
        supervisor=ProcessId(int(view.holder["pid"]), float(view.holder["created"])),
        network=str(beat.get("network", "")),
        ends=float(beat.get("ends", 0.0)),
        credentials=tuple(beat.get("credentials", ())),
        processes={name: ProcessId(*pair) for name, pair in beat.get("processes", {}).items()},
    )


def await_node(runs_folder: Path, node: Node, clock: Clock) -> int:
    """Return the pid of a node's first process, also if the node is just started again.

    ConfigError without a supervisor, SandboxError if the node does not come back.
    """
    deadline = clock.monotonic() + _BACK_S
    while clock.monotonic() < deadline:
        state = read_nodes(runs_folder)
        if state is None:
            start = f"python -m Daddy.docker_launch --run-dir {runs_folder} start"
            raise ConfigError(f"the nodes of {runs_folder} do not run", f"start them: {start}")
        if process := state.process(node):
            return process.pid
        clock.wait(threading.Event(), _POLL_S)
    raise SandboxError(f"{node.name} has ended and does not come back", f"read {runs_folder}/nodes")


def argv_in_node(
    runs_folder: Path,
    node: Node,
    command: Sequence[str],
    clock: Clock,
    world_size: int = len(RANKS),
) -> list[str]:
    """Return the command line that runs ``command`` in a node. ConfigError, SandboxError."""
    variables = node_environment(node, sys.prefix, str(CHECKOUT), world_size)
    if "TERM" in os.environ:
        variables["TERM"] = os.environ["TERM"]
    return enter_argv(await_node(runs_folder, node, clock), str(runs_folder), variables, command)


def open_shell(runs_folder: Path, node: Node, command: str | None, clock: Clock) -> int:
    """Run a shell, or ``command``, in a node with our input and outputs; return its exit code.

    It gets a terminal of its own: a program in a node could type into ours.
    """
    shell = ["bash", "-c", command] if command is not None else ["bash"]
    argv = argv_in_node(runs_folder, node, shell, clock)
    if os.isatty(0):
        argv = ["script", "--quiet", "--return", "--command", shlex.join(argv), "/dev/null"]
    else:
        argv = ["setsid", "--wait", *argv]
    code = run_interactive(argv)
    return code if code >= 0 else 128 - code


def print_logs(runs_folder: Path, nodes: Sequence[Node]) -> None:
    """Print the logs of nodes, each line with the node's name if there are several."""
    for node in nodes:
        prefix = f"[{node.short}] " if len(nodes) > 1 else ""
        with suppress(FileNotFoundError), node_paths(runs_folder).log(node).open("rb") as log:
            for line in _clean_lines(log):
                print(f"{prefix}{line}")


def stop_nodes(runs_folder: Path, clock: Clock) -> bool:
    """End the nodes and their supervisor; return False if none runs."""
    state = read_nodes(runs_folder)
    if state is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_process(state.supervisor, number)
        deadline = clock.monotonic() + GRACE_S
        while is_alive(state.supervisor) and clock.monotonic() < deadline:
            clock.wait(threading.Event(), _POLL_S)
    return True


def run_on_nodes(runs_folder: Path, argv: Sequence[str], nodes: int, clock: Clock) -> int:
    """Run ``argv`` on the first nodes at once and return the worst exit code.

    Output goes to our stdout, with the node's name where there are several, and into the nodes'
    logs. SIGINT and SIGTERM are passed on. Soon after rank 0's command has ended the others get
    SIGTERM, and their end by it counts as 0. Another rank that was killed is started again, three
    times at most. A process that a command leaves behind goes on until the nodes end. Call it in
    the main thread. ConfigError if the nodes do not run, SandboxError.
    """
    events = {number: event_on_signals(number) for number in (signal.SIGINT, signal.SIGTERM)}
    commands = [_RankCommand(runs_folder, node, argv, nodes, clock) for node in RANKS[:nodes]]
    first, *others = commands
    try:
        for command in commands:
            command.start()
        deadline = None
        while not first.ended(_POLL_S):
            for number in [number for number, event in events.items() if event.is_set()]:
                del events[number]
                deadline = clock.monotonic() + GRACE_S
                for command in commands:
                    command.signal(number)
            for other in others:
                other.restart_if_killed()
            if deadline is not None and clock.monotonic() > deadline:
                break
        for other in others:
            other.end()
    finally:
        for command in commands:
            command.kill()
    return max(command.code for command in commands)


def _clean_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file without control characters; an overlong one in pieces."""
    while line := file.readline(LINE_BYTES):
        text = line.decode(errors="replace").rstrip("\r\n").expandtabs()
        yield printable_line(text, LINE_BYTES)


class _RankCommand:
    """The command of one rank: a process in its node, and a thread that passes its output on."""

    def __init__(
        self, runs_folder: Path, node: Node, argv: Sequence[str], world_size: int, clock: Clock
    ) -> None:
        self._runs_folder, self._node, self._argv = runs_folder, node, argv
        self._world_size, self._clock = world_size, clock
        self._prefix = f"[{node.short}] " if world_size > 1 else ""
        self._child: Child | None = None
        self._output = threading.Thread()
        self._starts, self._due = 0, 0.0
        self._signalled = self._excused = False

    @property
    def code(self) -> int:
        """Exit code; 0 if we ended it because rank 0 had ended."""
        return 0 if self._excused or self._child is None else self._child.exit_code or 0

    def start(self) -> None:
        """Start the command in its node, and a thread that passes its output on."""
        argv = argv_in_node(
            self._runs_folder, self._node, self._argv, self._clock, self._world_size
        )
        readable, writable = os.pipe()
        self._output = threading.Thread(target=self._pass_on, args=(readable,), daemon=True)
        self._output.start()
        try:
            self._child = spawn_with_output(argv, writable)
        finally:
            os.close(writable)
        self._starts += 1

    def _pass_on(self, readable: int) -> None:
        """Print each line until the pipe ends; if nobody reads ours, the command gets SIGPIPE."""
        with suppress(OSError), os.fdopen(readable, "rb") as output:
            for line in _clean_lines(output):
                self._print(line)

    def _print(self, line: str) -> None:
        """Log a line and print it, each in one write: other commands write there too."""
        with node_paths(self._runs_folder).log(self._node).open("a") as log:
            log.write(f"{line}\n")
        sys.stdout.write(f"{self._prefix}{line}\n")
        sys.stdout.flush()

    def ended(self, seconds: float | None = 0.0) -> bool:
        """Wait for the command; return True if it has ended."""
        return self._child is None or self._child.wait(seconds)

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the command."""
        self._signalled = True
        if self._child and not self.ended() and not signal_descendants(self._child.pid, number):
            self._child.signal(number)  # it has not entered the node yet

    def restart_if_killed(self) -> None:
        """Start the command again if a signal killed it that we did not send."""
        killed = self.ended() and self._child is not None and self.code > _SIGNALLED
        if not killed or self._signalled or self._starts > MAX_RESTARTS:
            return
        now = self._clock.monotonic()
        self._due = self._due or now + _RESTART_S  # perhaps its node is dying: it cannot be entered
        if now >= self._due:
            self._due = 0.0
            self._print(f"exit code {self.code}: started again ({self._starts} of {MAX_RESTARTS})")
            self.start()

    def end(self) -> None:
        """Send SIGTERM, unless the command ends by itself or by a signal that was passed on."""
        if not self.ended(GRACE_S if self._signalled else _SETTLE_S):
            self._excused = True
            self.signal(signal.SIGTERM)
            self.ended(GRACE_S)

    def kill(self) -> None:
        """Kill what is left of the command, and pass on the rest of its output."""
        if not self.ended():
            self.signal(signal.SIGKILL)
            self.ended(None)
        if self._output.ident:
            self._output.join(1.0)  # a process that the command left behind may keep the pipe
