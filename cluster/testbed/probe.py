"""Asks a test cluster how it is: which daemons run, whether ssh and every node answer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

from . import processes
from .layout import Layout, State, boot_id
from .packages import SYSTEM_PATH
from .progress import ClusterError, wait_until
from .run_child import run
from .slurm_texts import NODES, PARTITION

START_S = 40.0
_ANSWERING = ("idle", "mixed", "allocated", "completing")
"""Slurm puts a star behind the state of a node that does not."""
_OF_OTHERS = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_")
"""Settings of another cluster, which would bend what clients do here."""


def supervisor_of(state: State) -> processes.Process:
    """Who supervises this testbed."""
    return processes.Process(state.supervisor_pid, state.supervisor_start)


def supervised(state: State) -> bool:
    """Whether the process that owns this test cluster is alive."""
    return state.boot == boot_id() and processes.alive(supervisor_of(state))


def await_answer(layout: Layout, state: State) -> None:
    """Wait until ssh works and every node is usable, drained ones too. Raises ClusterError."""
    unready = "nothing"
    logs = layout.base / "log"

    def ready() -> bool:
        nonlocal unready
        if not processes.alive(supervisor_of(state)):
            why = _last_line(logs / "supervisor.out")
            raise ClusterError(f"the supervisor ended: {why}", f"see {logs}")
        unready = not_ready(layout, state)
        if "drain" in unready:
            _resume(state)
        return not unready

    if not wait_until("the cluster", ready, START_S):
        raise ClusterError(f"{unready} did not answer in {START_S:.0f} s", f"see {logs}")


def _resume(state: State) -> None:
    """What an administrator does: slurmd drains its node when it cannot report that a job ended."""
    for number, said in enumerate(node_states(state), 1):
        if said.startswith("drain"):
            update = ("update", f"NodeName=n{number}", "State=RESUME")
            with contextlib.suppress(ClusterError):
                run([client(state, "scontrol"), *update], 20, client_environment(state))


def not_ready(layout: Layout, state: State) -> str:
    """The first part that does not answer; empty when all do."""
    missing = missing_daemons(layout, state)
    if missing:
        return missing[0]
    if not _ssh_answers(state):
        return "sshd"
    if not state.slurm:
        return ""
    states = node_states(state)
    usable = [one for one in states if one in _ANSWERING]
    said = ", ".join(states) or "no word of any"
    return "" if len(usable) == NODES else f"slurmctld or a node ({said})"


def _ssh_answers(state: State) -> bool:
    try:
        with socket.create_connection((state.host, state.port), timeout=2) as link:
            link.settimeout(2)
            # The whole greeting is read, or sshd logs a reset.
            return link.recv(256).startswith(b"SSH-2.0")
    except OSError:
        return False


def missing_daemons(layout: Layout, state: State) -> list[str]:
    """Names of daemons that do not run."""
    wanted = ["sshd"]
    if state.slurm:
        wanted += [
            "munged",
            "mariadbd",
            "slurmdbd",
            "slurmctld",
            *(f"slurmd-n{k}" for k in range(1, NODES + 1)),
        ]
    try:
        found = json.loads(layout.daemons_file.read_text())
    except (OSError, ValueError):
        return wanted
    known = {name: processes.Process(*row) for name, row in found.items()}
    return [name for name in wanted if name not in known or not processes.alive(known[name])]


def node_states(state: State) -> list[str]:
    """State of every node, as sinfo writes it; empty when the controller does not answer."""
    command = [client(state, "sinfo"), "-h", "-N", "-p", PARTITION, "-o", "%T"]
    try:
        return run(command, 20, client_environment(state)).split()
    except ClusterError:
        return []


def client(state: State, tool: str) -> str:
    """The program a client should start: the wrapper where packages were unpacked."""
    wrapper = Path(state.path or "/nonexistent") / tool
    return str(wrapper) if wrapper.exists() else state.tools[tool]


def client_environment(state: State) -> dict[str, str]:
    """The environment of a person who sourced env.sh."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
    path = ":".join(filter(None, (state.path, kept.get("PATH", SYSTEM_PATH))))
    conf = {"SLURM_CONF": f"{state.root}/etc/slurm.conf"} if state.slurm else {}
    return {**kept, **conf, "PATH": path}


def _last_line(path: Path) -> str:
    try:
        return (path.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    except OSError:
        return "no message"
