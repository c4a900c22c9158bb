"""Pure: settings of a test cluster → the text of every file Slurm reads.

No key stands here without a reason; the reasons that are not obvious are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

NODES = 4
CPUS = 8
MEMORY_MB = 40_000
PARTITION = "gpu-linuxlab"
ACCOUNT = "engr-class-any"
QOS = "students"
_CLUSTER, _DATABASE = "testbed", "slurm_acct"
MAX_TIME = "4:00:00"
QUICK = "sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1,bf_continue"


@dataclass(frozen=True)
class Node:
    """Where one slurmd runs."""

    name: str
    hostname: str
    address: str
    port: int


@dataclass(frozen=True)
class Plan:
    """What the texts depend on. Paths are plain: no spaces, at most 60 characters for ``root``."""

    root: str
    user: str
    controller_name: str
    controller_host: str
    nodes: tuple[Node, ...]
    controller_port: int
    slurm_version: tuple[int, int]
    plugins: str
    max_jobs: int
    users: tuple[str, ...]
    """Who may submit."""
    database_port: int
    """slurmdbd's."""
    own_network: bool
    """The daemons listen in a network namespace that only this host reaches."""


_SAME_EVERYWHERE = f"""\
ClusterName=testbed
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
# Four nodes of 8 CPUs and 40 GB on whatever this machine has.
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
GresTypes=gpu
PropagateResourceLimits=NONE
# The cap per user is a QOS in the accounting database, as on the real partition.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
# A hand-over takes half a second instead of three.
SchedulerParameters={QUICK}
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=5
OverTimeLimit=0
CompleteWait=0
MessageTimeout=5
MinJobAge=300
EnforcePartLimits=ALL
JobCompType=jobcomp/filetxt
PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime={MAX_TIME} DefaultTime=1:00:00 \
DefMemPerCPU=100 State=UP
"""


def slurm_conf(plan: Plan) -> str:
    """slurm.conf: four nodes on this host, quick scheduling, limits as on the real partition."""
    lines = [
        f"SlurmctldHost={plan.controller_name}({plan.controller_host})",
        f"SlurmctldPort={plan.controller_port}",
        f"SlurmUser={plan.user}",
        f"SlurmdUser={plan.user}",
        # A requeued job waits until its old credential expires: 120 s unless told otherwise.
        f"AuthInfo=socket={plan.root}/run/munge.socket,cred_expire=10",
        *(f"{key}={plan.root}/{place}" for key, place in _PLACES.items()),
        f"AccountingStorageHost={plan.controller_host}",
        f"AccountingStoragePort={plan.database_port}",
        f"AccountingStoragePass={plan.root}/run/munge.socket",
        *(_node_line(node) for node in plan.nodes),
    ]
    if plan.plugins:
        lines.append(f"PluginDir={plan.plugins}")
    if not plan.own_network:
        # Never on every address of a network that others share.
        lines.append("CommunicationParameters=NoCtldInAddrAny,NoInAddrAny")
    return "\n".join(lines) + "\n" + _SAME_EVERYWHERE


_PLACES = {
    "StateSaveLocation": "state",
    "SlurmdSpoolDir": "spool/%n",
    "SlurmctldPidFile": "run/slurmctld.pid",
    "SlurmdPidFile": "run/slurmd-%n.pid",
    "SlurmctldLogFile": "log/slurmctld.log",
    "SlurmdLogFile": "log/slurmd-%n.log",
    "JobCompLoc": "log/jobcomp.txt",
}


def _node_line(node: Node) -> str:
    return (
        f"NodeName={node.name} NodeHostname={node.hostname} NodeAddr={node.address} "
        f"Port={node.port} CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:1 State=UNKNOWN"
    )


def gres_conf() -> str:
    """One GPU per node; without a file it would be dropped silently, and this file is no GPU."""
    return f"AutoDetect=off\nNodeName=n[1-{NODES}] Name=gpu File=/dev/null\n"


def cgroup_conf(plan: Plan) -> str:
    """The plugin is started even when nothing uses it, and its detection fails on many hosts."""
    return f"CgroupPlugin={'cgroup/v1' if plan.slurm_version < (23, 2) else 'disabled'}\n"


def slurmdbd_conf(plan: Plan) -> str:
    """slurmdbd.conf: the daemon between Slurm and the database."""
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={plan.root}/run/munge.socket",
        "DbdHost=localhost",
        f"DbdAddr={plan.controller_host}",
        f"DbdPort={plan.database_port}",
        f"SlurmUser={plan.user}",
        "StorageType=accounting_storage/mysql",
        # With this host the client library takes the socket that MYSQL_UNIX_PORT names.
        "StorageHost=localhost",
        f"StorageUser={plan.user}",
        f"StorageLoc={_DATABASE}",
        f"PidFile={plan.root}/run/slurmdbd.pid",
        f"LogFile={plan.root}/log/slurmdbd.log",
    ]
    if plan.plugins:
        lines.append(f"PluginDir={plan.plugins}")
    if not plan.own_network:
        lines.append("CommunicationParameters=NoInAddrAny")
    return "\n".join(lines) + "\n"


def database_socket(plan: Plan) -> str:
    """In a folder that only its owner may enter: the database asks nobody for a password."""
    return f"{plan.root}/db/s"


def accounting_commands(plan: Plan) -> str:
    """For sacctmgr: one account, its users, and the QOS whose cap they are under."""
    own = f"Account={ACCOUNT} DefaultAccount={ACCOUNT} QOS={QOS} DefaultQOS={QOS}"
    lines = [
        f"add cluster {_CLUSTER}",
        f"add qos {QOS}",
        f"modify qos {QOS} set MaxJobsPerUser={plan.max_jobs}",
        f"add account {ACCOUNT} Cluster={_CLUSTER} Description=testbed Organization=testbed",
    ]
    for user in plan.users:
        # root is there from the start, with an account of its own that knows no cap.
        lines += [f"add user {user} {own}", f"modify user {user} set DefaultAccount={ACCOUNT}"]
    return "\n".join(lines) + "\n"


def as_at_first(plan: Plan) -> str:
    """SQL for a kept database: no jobs, whose ids a new controller gives again, and our cap."""
    tables = ("job_table", "step_table", "event_table", "suspend_table")
    lines = [f"truncate {_DATABASE}.{_CLUSTER}_{table};" for table in tables]
    cap = f"max_jobs_per_user={plan.max_jobs}, max_submit_jobs_per_user=null"
    lines.append(f"update {_DATABASE}.qos_table set {cap} where name='{QOS}';")  # noqa: S608
    none = "max_jobs=null, max_submit_jobs=null, grp_jobs=null, grp_submit_jobs=null"
    lines.append(f"update {_DATABASE}.{_CLUSTER}_assoc_table set {none};")  # noqa: S608
    return "\n".join(lines) + "\n"
