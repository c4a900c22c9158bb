"""Pure: settings of a sandbox → the text of every file its daemons and clients read.

No key stands here without a reason; the reasons that are not obvious are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

NODES = 4
CPUS = 8
MEMORY_MB = 40_000
PARTITION = "gpu-linuxlab"
MAX_TIME = "4:00:00"


@dataclass(frozen=True)
class Plan:
    """What the texts depend on. Paths are plain: no spaces, at most 60 characters for ``root``."""

    root: str
    user: str
    controller_host: str
    ports: tuple[int, ...]
    slurm_version: tuple[int, int]
    plugins: str
    max_jobs: int
    user_ids: tuple[int, ...]
    own_network: bool
    """The daemons listen in a network namespace that only this host reaches."""


def slurm_conf(plan: Plan) -> str:
    """slurm.conf: four nodes on this host, quick scheduling, limits as on the real partition."""
    root, port = plan.root, plan.ports
    slots = ",".join(f"slots_{uid}:{plan.max_jobs}" for uid in plan.user_ids)
    lines = [
        "ClusterName=sandbox",
        f"SlurmctldHost=localhost({plan.controller_host})",
        f"SlurmctldPort={port[0]}",
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
        "SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,"
        "bf_interval=1,bf_continue",
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
            f"NodeName=n{index} NodeHostname=localhost NodeAddr={plan.controller_host} "
            f"Port={port[index]} CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:1 State=UNKNOWN"
            for index in range(1, NODES + 1)
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


@dataclass(frozen=True)
class LoginPlan:
    """What the login node's texts depend on."""

    base: str
    root: str
    host: str
    port: int
    user: str
    friend: str
    path: str
    sftp_server: str
    slurm: bool


def sshd_config(plan: LoginPlan) -> str:
    """The login node's sshd: keys only, loopback or its own address only, forwarding allowed."""
    folder = f"{plan.root}/ssh"
    settings = [f"DADDY_SANDBOX_NODE={plan.root}", f"PATH={plan.path}"]
    if plan.slurm:
        settings.append(f"SLURM_CONF={plan.root}/etc/slurm.conf")
    return f"""Port {plan.port}
ListenAddress {plan.host}
HostKey {folder}/host_key
PidFile {plan.root}/run/sshd.pid
AuthorizedKeysFile {folder}/authorized_%u
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {plan.user} {plan.friend}
AllowTcpForwarding yes
GatewayPorts no
X11Forwarding no
PrintMotd no
PrintLastLog no
ClientAliveInterval 5
ClientAliveCountMax 3
MaxStartups 100
MaxSessions 100
SetEnv {" ".join(settings)}
ForceCommand {plan.root}/etc/login
Subsystem sftp {plan.sftp_server}
"""


def login_script(plan: LoginPlan) -> str:
    """What sshd runs for every session: the site's start files may not take Slurm off the PATH."""
    return f"""#!/bin/sh
if [ -n "${{SSH_ORIGINAL_COMMAND:-}}" ]; then
  exec "${{SHELL:-/bin/sh}}" -c "$SSH_ORIGINAL_COMMAND"
fi
case "${{SHELL:-}}" in
  */bash) exec "$SHELL" --rcfile {plan.root}/etc/bashrc -i ;;
  *) exec "${{SHELL:-/bin/sh}}" -i ;;
esac
"""


def bashrc(plan: LoginPlan) -> str:
    """An interactive shell: the usual start files, then the PATH again (they reset it)."""
    return f"""for file in /etc/profile ~/.bash_profile ~/.bash_login ~/.profile; do
  [ -r "$file" ] && . "$file"
done
PATH={plan.path}:$PATH
"""


def ssh_config(plan: LoginPlan) -> str:
    """For ``ssh -F``: aliases ``login`` and, where there is a second user, ``friend``."""
    text = _host(f"login {plan.host}", plan, plan.user)
    return text + (_host("friend", plan, plan.friend) if plan.friend else "")


def _host(names: str, plan: LoginPlan, user: str) -> str:
    return f"""Host {names}
  HostName {plan.host}
  Port {plan.port}
  User {user}
  IdentityFile "{plan.base}/ssh/key_{user}"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{plan.base}/ssh/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ExitOnForwardFailure yes
  ConnectTimeout 10
  ServerAliveInterval 5
  ServerAliveCountMax 3
"""


def known_hosts(plan: LoginPlan, host_key: str) -> str:
    """One line: the login node's address and its public key."""
    name = plan.host if plan.port == 22 else f"[{plan.host}]:{plan.port}"  # noqa: PLR2004
    return f"{name} {' '.join(host_key.split()[:2])}\n"


def env_sh(plan: LoginPlan, own_bin: str) -> str:
    """For ``source``: makes this shell a user of the sandbox."""
    lines = ["# source this file to use the sandbox from a shell"]
    if plan.slurm:
        lines += [
            "unset $(env | sed -n 's/^\\(\\(SLURM\\|SBATCH\\|SQUEUE\\|SINFO\\)_[A-Z_0-9]*\\)=.*/\\1/p')",
            f"export SLURM_CONF='{plan.root}/etc/slurm.conf'",
            "export DADDY_SITE=sandbox",
        ]
    if own_bin:
        lines.append(f"export PATH='{own_bin}':\"$PATH\"")
    lines.append(f"export DADDY_SANDBOX='{plan.base}'")
    return "\n".join(lines) + "\n"


def passwd(lines: str, friend: str, home: str, friend_id: int) -> str:
    """The host's users, the one sshd needs, and the second person."""
    names = {line.split(":")[0] for line in lines.splitlines()}
    extra = [] if "sshd" in names else ["sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"]
    if friend:
        extra.append(f"{friend}:x:{friend_id}:{friend_id}::{home}:/bin/bash")
    return lines.rstrip("\n") + "\n" + "".join(f"{line}\n" for line in extra)


def shadow(passwd_text: str) -> str:
    """No password for anyone: the login node knows keys only, and no real hash is copied."""
    return "".join(
        f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in passwd_text.splitlines()
    )
