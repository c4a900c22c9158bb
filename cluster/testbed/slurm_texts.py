"""Pure. Renders the files that Slurm reads from a test cluster's settings."""

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
    """Holds the name, address and port of one slurmd."""

    name: str
    hostname: str
    address: str
    port: int


@dataclass(frozen=True)
class Plan:
    """Holds the settings of Slurm's files; ``root`` has no spaces and at most 60 characters."""

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
    """Users that may submit."""
    database_port: int
    """Port of slurmdbd."""
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
# Use the configured 8 CPUs and 40 GB per node, whatever this machine has.
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
GresTypes=gpu
PropagateResourceLimits=NONE
# The limit of jobs per user is a QOS in the accounting database, as on the real partition.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
# The next job starts half a second after the last ended, instead of three.
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
    """Render slurm.conf: four nodes, fast scheduling, limits as on the real partition."""
    lines = [
        f"SlurmctldHost={plan.controller_name}({plan.controller_host})",
        f"SlurmctldPort={plan.controller_port}",
        f"SlurmUser={plan.user}",
        f"SlurmdUser={plan.user}",
        # A requeued job waits until its old credential expires (default 120 s).
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
        # Do not listen on all addresses of a shared network.
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
    """Render gres.conf: one GPU per node; Slurm ignores a GPU without a device file."""
    return f"AutoDetect=off\nNodeName=n[1-{NODES}] Name=gpu File=/dev/null\n"


def cgroup_conf(plan: Plan) -> str:
    """Render cgroup.conf: Slurm loads the plugin even when unused, and detecting it often fails."""
    return f"CgroupPlugin={'cgroup/v1' if plan.slurm_version < (23, 2) else 'disabled'}\n"


def slurmdbd_conf(plan: Plan) -> str:
    """Render slurmdbd.conf: the daemon between Slurm and the database."""
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={plan.root}/run/munge.socket",
        "DbdHost=localhost",
        f"DbdAddr={plan.controller_host}",
        f"DbdPort={plan.database_port}",
        f"SlurmUser={plan.user}",
        "StorageType=accounting_storage/mysql",
        # For localhost the client library uses the socket in MYSQL_UNIX_PORT.
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
    """Return the database's socket; only its folder's owner may enter (there is no password)."""
    return f"{plan.root}/db/s"


def accounting_commands(plan: Plan) -> str:
    """Render sacctmgr commands that create the account, its users and the QOS with the limit."""
    own = f"Account={ACCOUNT} DefaultAccount={ACCOUNT} QOS={QOS} DefaultQOS={QOS}"
    lines = [
        f"add cluster {_CLUSTER}",
        f"add qos {QOS}",
        f"modify qos {QOS} set MaxJobsPerUser={plan.max_jobs}",
        f"add account {ACCOUNT} Cluster={_CLUSTER} Description=testbed Organization=testbed",
    ]
    for user in plan.users:
        # Slurm creates root with another account, which has no limit.
        lines += [f"add user {user} {own}", f"modify user {user} set DefaultAccount={ACCOUNT}"]
    return "\n".join(lines) + "\n"


def reset_database_sql(plan: Plan) -> str:
    """Render SQL that resets a copied database: no jobs, and the configured limit per user."""
    tables = ("job_table", "step_table", "event_table", "suspend_table")
    lines = [f"truncate {_DATABASE}.{_CLUSTER}_{table};" for table in tables]
    cap = f"max_jobs_per_user={plan.max_jobs}, max_submit_jobs_per_user=null"
    lines.append(f"update {_DATABASE}.qos_table set {cap} where name='{QOS}';")  # noqa: S608
    none = "max_jobs=null, max_submit_jobs=null, grp_jobs=null, grp_submit_jobs=null"
    lines.append(f"update {_DATABASE}.{_CLUSTER}_assoc_table set {none};")  # noqa: S608
    return "\n".join(lines) + "\n"
