"""Chooses the mode, addresses, ports and users of a test cluster on this machine."""

import getpass
import os
import pwd
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from . import namespaces
from .layout import Layout, State, boot_id
from .login_texts import SSH_PORT
from .packages import Programs
from .progress import ClusterError
from .run_child import run
from .slurm_texts import NODES, Node

FRIEND, FRIEND_ID = "friend", 20001
RUN_SSHD = Path("/run/sshd")
SLURMCTLD_PORT, SLURMD_PORT, SLURMDBD_PORT = 6817, 6818, 6819


@dataclass(frozen=True)
class UpOptions:
    """Holds the options of ``up``."""

    base: Path
    packages: Path
    slurm: bool = True
    isolated: bool = True
    max_jobs: int = 4


def plan_state(options: UpOptions, layout: Layout, programs: Programs) -> State:
    """Return the state of a test cluster that is about to be started."""
    reason = namespaces.can_isolate() if options.isolated else "requested"
    network = None if reason else namespaces.free_network()
    private_users = bool(network) or namespaces.can_have_users()
    plain_root = os.geteuid() == 0 and not private_users
    if plain_root:
        _check_sshd_user(reason)
    host = network.login if network else "127.0.0.1"
    ssh_port, database_port, *ports = free_ports(host="127.0.0.1", count=NODES + 3)
    open_to_all = world_can_enter(options.base) and world_can_enter(options.packages)
    return State(
        root=str(layout.root),
        mode="namespace" if network else "loopback",
        reason=reason,
        network=network.number if network else 0,
        private_users=private_users,
        slurm=options.slurm,
        host=host,
        port=SSH_PORT if network else ssh_port,
        ports=[SLURMCTLD_PORT, *[SLURMD_PORT] * NODES] if network else ports,
        database_port=SLURMDBD_PORT if network else database_port,
        user=getpass.getuser(),
        friend=FRIEND if network and open_to_all else "",
        remote_port=9999 if network else 9998,
        max_jobs=options.max_jobs,
        path=programs.bin,
        packages=str(programs.folder),
        slurm_version=slurm_version(programs) if options.slurm else "",
        boot=boot_id(),
        tools=programs.tools,
        made_run_sshd=plain_root and not RUN_SSHD.exists(),
    )


def _check_sshd_user(reason: str) -> None:
    """Raise ClusterError where the host has no user ``sshd``, to which root's sshd switches."""
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        raise ClusterError(
            f"missing here: the user sshd ({reason}, so the host's own users are used)",
            "run as an ordinary user, or install openssh-server",
        ) from None


def make_nodes(state: State) -> tuple[Node, ...]:
    """Return the compute nodes with their addresses and ports."""
    network = namespaces.Network(state.network) if state.network else None
    return tuple(
        Node(
            name=f"n{index}",
            hostname=f"n{index}" if network else "localhost",
            address=network.node(index) if network else state.host,
            port=state.ports[index],
        )
        for index in range(1, NODES + 1)
    )


def free_ports(host: str, count: int) -> list[int]:
    """Return unused ports, found by binding them all at once."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind((host, 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def world_can_enter(folder: Path) -> bool:
    """Return True where other users may enter the folder and all its parents."""
    paths = (folder, *folder.parents)
    return all(path.stat().st_mode & 0o001 for path in paths if path.exists())


def slurm_version(programs: Programs) -> str:
    """Return Slurm's version, such as 22.05.8."""
    environment = {**os.environ, **programs.environment()}
    match = re.search(r"\d+\.\d+\.\d+", run([programs.tools["slurmctld"], "-V"], 10, environment))
    return match.group() if match else "0.0.0"
