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


def slurm_conf(plan: Plan) -> str:
    """slurm.conf: four nodes on this host, quick scheduling, limits as on the real partition."""
    root = plan.root
    slots = ",".join(f"slots_{uid}:{plan.max_jobs}" for uid in plan.user_ids)
    lines = [
        "ClusterName=sandbox",
        f"SlurmctldHost={plan.controller_name}({plan.controller_host})",
        f"SlurmctldPort={plan.controller_port}",
        f"SlurmUser={plan.user}",
        f"SlurmdUser={plan.user}",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        # A requeued job waits until its old credential expires: 120 s unless told otherwise.
        f"AuthInfo=socket={root}/run/munge.socket,cred_expire=10",
        f"StateSaveLocation={root}/state",
        f"SlurmdSpoolDir={root}/spool/%n",
        f"SlurmctldPidFile={root}/run/slurmctld.pid",
        f"SlurmdPidFile={root}/run/slurmd-%n.pid",
        f"SlurmctldLogFile={root}/log/slurmctld.log",
        f"SlurmdLogFile={root}/log/slurmd-%n.log",
        *([f"PluginDir={plan.plugins}"] if plan.plugins else []),
        # On a shared network never on 0.0.0.0: a network of its own nobody else reaches.
        *([] if plan.own_network else ["CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"]),
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        # Four nodes of 8 CPUs and 40 GB on whatever this machine has.
        "SlurmdParameters=config_overrides",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "ReturnToService=2",
        "GresTypes=gpu",
        "PropagateResourceLimits=NONE",
        # The cap per user without a database: every job takes one of its owner's slots.
        f"Licenses={slots}",
        "JobSubmitPlugins=lua",
        # A hand-over takes half a second instead of three.
        f"SchedulerParameters={QUICK}",
        "SlurmctldTimeout=10",
        "SlurmdTimeout=10",
        "KillWait=5",
        "OverTimeLimit=0",
        "CompleteWait=0",
        "MessageTimeout=5",
        "MinJobAge=300",
        "EnforcePartLimits=ALL",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={root}/log/jobcomp.txt",
        *(
            f"NodeName={node.name} NodeHostname={node.hostname} NodeAddr={node.address} "
            f"Port={node.port} CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:1 State=UNKNOWN"
            for node in plan.nodes
        ),
        f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime={MAX_TIME} "
        "DefaultTime=1:00:00 DefMemPerCPU=100 State=UP",
    ]
    return "\n".join(lines) + "\n"


def gres_conf() -> str:
    """One GPU per node. A gres named gpu without a file is dropped silently; this file is no GPU."""
    return f"AutoDetect=off\nNodeName=n[1-{NODES}] Name=gpu File=/dev/null\n"


def cgroup_conf(plan: Plan) -> str:
    """slurmd starts the cgroup plugin even when nothing uses it; detection fails on many hosts."""
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
