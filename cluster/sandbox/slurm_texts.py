"""Pure: settings of a sandbox → the text of every file Slurm reads.

No key stands here without a reason; the reasons that are not obvious are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

NODES = 4
CPUS = 8
MEMORY_MB = 40_000
PARTITION = "gpu-linuxlab"
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
    user_ids: tuple[int, ...]
    own_network: bool
    """The daemons listen in a network namespace that only this host reaches."""


_SAME_EVERYWHERE = f"""\
ClusterName=sandbox
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
JobSubmitPlugins=lua
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
    slots = ",".join(f"slots_{uid}:{plan.max_jobs}" for uid in plan.user_ids)
    lines = [
        f"SlurmctldHost={plan.controller_name}({plan.controller_host})",
        f"SlurmctldPort={plan.controller_port}",
        f"SlurmUser={plan.user}",
        f"SlurmdUser={plan.user}",
        # A requeued job waits until its old credential expires: 120 s unless told otherwise.
        f"AuthInfo=socket={plan.root}/run/munge.socket,cred_expire=10",
        *(f"{key}={plan.root}/{place}" for key, place in _PLACES.items()),
        # The cap per user without a database: every job takes one of its owner's slots.
        f"Licenses={slots}",
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


def job_submit_lua() -> str:
    """Every job asks for one of its owner's slots, so at most ``max_jobs`` of them run at once."""
    return """function slurm_job_submit(job, partitions, uid)
  local slot = string.format("slots_%d:1", uid)
  if job.licenses == nil or job.licenses == "" then
    job.licenses = slot
  else
    job.licenses = job.licenses .. "," .. slot
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
"""
