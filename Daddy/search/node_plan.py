"""Pure. Plans two nodes and an API in one private network, as command lines of bubblewrap.

One bubblewrap holds users and network; each node is a further one in it, with files, processes and
a host name of its own. A command enters a node by util-linux's ``nsenter``, without capabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from Daddy.core.arguments import did_you_mean
from Daddy.core.errors import UsageError
from Daddy.core.rank_address import RankAddress, rank_environment

Network = Literal["none", "host"]
API_PORTS = (8080, 8081)
HOME = "/root"
"""Home inside: a node's only user has id 0, as in a container, and stands for the person."""
CREDENTIALS = (".netrc", ".metta", ".config", ".ssh", ".aws")
SCRATCH_BYTES = 2 << 30
"""Size of /tmp, /dev/shm and the home of a node, each in memory."""
_SCRATCH = ("/dev/shm", "/tmp", HOME)  # noqa: S108 - of the node, not of this machine
_WITHOUT_RIGHTS = ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
_TOGETHER = ("setpriv", "--pdeathsig", "KILL")
"""Ends a command when the process ends that started it."""
_INTO = ["--user", "--mount", "--uts", "--ipc", "--net", "--pid", "--preserve-credentials"]


@dataclass(frozen=True, slots=True)
class Node:
    """A node: host name, the name that people type, address, and rank (None: the API)."""

    name: str
    short: str
    address: str
    rank: int | None


NODES = (
    Node("metta-sweep-master", "master", "127.0.0.2", 0),
    Node("metta-sweep-worker", "worker", "127.0.0.3", 1),
    Node("metta-dummy-api", "api", "127.0.0.1", None),
)
RANKS = tuple(node for node in NODES if node.rank is not None)


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Paths of this machine that nodes see.

    ``system`` are bubblewrap's arguments for /usr and the like, ``read_only`` the checkout and the
    Python environments, ``credentials`` names in ``home``; ``state`` is in the runs folder and for
    the supervisor alone.
    """

    system: tuple[str, ...]
    read_only: tuple[str, ...]
    home: str
    credentials: tuple[str, ...]
    runs_folder: str
    state: str
    hosts: str


def find_node(name: str) -> Node:
    """Return the node of this long or short name. UsageError if there is none."""
    by_name = {known: node for node in NODES for known in (node.short, node.name)}
    if name not in by_name:
        raise UsageError(
            f"there is no node {name!r}{did_you_mean(name, by_name)}",
            f"choose one of: {', '.join(by_name)}",
        )
    return by_name[name]


def hosts_text() -> str:
    """Return the content of ``/etc/hosts`` inside."""
    return "127.0.0.1 localhost\n" + "".join(f"{node.address} {node.name}\n" for node in NODES)


def node_environment(node: Node, prefix: str, checkout: str, world_size: int) -> dict[str, str]:
    """Return the variables of a node; ``prefix`` is the Python environment's folder."""
    common = {
        "PATH": f"{prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "PYTHONPATH": checkout,
    }
    if node.rank is None:
        return common
    at = RankAddress(node.rank, world_size, NODES[0].name)
    return common | {
        **rank_environment(at),
        "LOCAL_RANK": "0",
        "NODE_INDEX": str(node.rank),
        "DIST_URL": f"tcp://{at.host}:{at.port}",
    }


def network_argv(network: Network, system: Sequence[str], info: int) -> list[str]:
    """Return the command line of the bubblewrap that holds users and network.

    ``info``: the descriptor to which it writes its child's pid.
    """
    private = ["--unshare-net"] if network == "none" else []
    argv = ["bwrap", "--unshare-user", "--uid", "0", "--gid", "0", *private, "--unshare-pid"]
    argv += ["--die-with-parent", "--cap-drop", "ALL", "--info-fd", str(info), *system]
    return [*argv, "--", "sleep", "infinity"]


def node_argv(
    node: Node,
    files: NodeFiles,
    environment: Mapping[str, str],
    network_pid: int,
    info: int | None,
    command: Sequence[str],
) -> list[str]:
    """Return the command line of a node whose first program is ``command``."""
    argv = ["nsenter", "--target", str(network_pid), "--user", "--net", "--preserve-credentials"]
    argv += ["bwrap", "--unshare-pid", "--unshare-uts", "--unshare-ipc", "--hostname", node.name]
    argv += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    argv += [] if info is None else ["--info-fd", str(info)]
    argv += [part for name, value in environment.items() for part in ("--setenv", name, value)]
    argv += [*files.system, "--ro-bind", files.hosts, "/etc/hosts"]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for folder in _SCRATCH:
        argv += ["--size", str(SCRATCH_BYTES), "--tmpfs", folder]
    for name in files.credentials:
        argv += ["--ro-bind", f"{files.home}/{name}", f"{HOME}/{name}"]
    for folder in files.read_only:
        argv += ["--ro-bind", folder, folder]
    argv += ["--bind", files.runs_folder, files.runs_folder, "--ro-bind", files.state, files.state]
    return [*argv, "--remount-ro", "/", "--chdir", files.runs_folder, "--", *command]


def enter_argv(
    node_pid: int, runs_folder: str, environment: Mapping[str, str], command: Sequence[str]
) -> list[str]:
    """Return the command line that runs ``command`` in a running node, in the runs folder.

    It has no rights beyond the node's own programs, and ends with the process that starts it.
    """
    variables = [f"{name}={value}" for name, value in environment.items()]
    argv = [*_TOGETHER, "nsenter", "--target", str(node_pid), *_INTO]
    argv += [*_TOGETHER, *_WITHOUT_RIGHTS]
    return [*argv, "env", "-i", "-C", runs_folder, *variables, *command]
