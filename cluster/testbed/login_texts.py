"""Pure. Renders the files that sshd, ssh and shells read from a test cluster's settings."""

from dataclasses import dataclass

SSH_PORT = 22
SITE = "testbed"
"""Name of the test cluster's configuration in ``cluster/sites``."""
HOME_LINK = "--delay-ms 40 --kilobytes 1000"
"""A home internet link: 80 ms round trip, 8 Mbit/s."""


@dataclass(frozen=True)
class LoginPlan:
    """Holds the settings from which the login node's files are rendered."""

    base: str
    root: str
    host: str
    port: int
    user: str
    friend: str
    path: str
    sftp_server: str
    slurm: bool
    program: str
    """Path of the executable that ``up`` and ``down`` run."""


def sshd_config(plan: LoginPlan) -> str:
    """Render sshd_config: public keys only, one address only, port forwarding allowed."""
    folder = f"{plan.root}/ssh"
    settings = [f"DADDY_TESTBED_NODE={plan.root}", f"PATH={plan.path}"]
    if plan.slurm:
        settings += [f"SLURM_CONF={plan.root}/etc/slurm.conf", f"DADDY_SITE={SITE}"]
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
    """Render the command of every ssh session, which keeps Slurm in PATH for interactive shells."""
    return f"""#!/bin/sh
command=${{SSH_ORIGINAL_COMMAND:-}}
unset SSH_ORIGINAL_COMMAND
[ -z "$command" ] || exec "${{SHELL:-/bin/sh}}" -c "$command"
case "${{SHELL:-}}" in
  */bash) exec "$SHELL" --rcfile {plan.root}/etc/bashrc -i ;;
  *) exec "${{SHELL:-/bin/sh}}" -i ;;
esac
"""


def bashrc(plan: LoginPlan) -> str:
    """Render the interactive shell's bashrc: sets PATH again after the usual start files."""
    return f"""for file in /etc/profile ~/.bash_profile ~/.bash_login ~/.profile; do
  [ -r "$file" ] && . "$file"
done
PATH={plan.path}:$PATH
"""


def ssh_config(plan: LoginPlan) -> str:
    """Render ssh_config with the hosts ``login``, ``slow`` (a poor link) and ``friend``."""
    text = _host(f"login {plan.host}", plan, plan.user)
    text += (
        _host("slow", plan, plan.user)
        + f'  ProxyCommand "{plan.program}" shape {HOME_LINK} %h %p\n'
    )
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
    """Render known_hosts: the login node's address and its public key."""
    name = plan.host if plan.port == SSH_PORT else f"[{plan.host}]:{plan.port}"
    return f"{name} {' '.join(host_key.split()[:2])}\n"


_FORGET_OTHERS = "unset $(env | sed -nE 's/^((SLURM|SBATCH|SQUEUE|SINFO)_[A-Z_0-9]*)=.*/\\1/p')"
"""Unsets variables of another cluster, which would change the clients' output."""


def env_sh(plan: LoginPlan, own_bin: str) -> str:
    """Render env.sh: ``source`` it to use the test cluster from a shell."""
    lines = ["# source this file to use the test cluster from a shell"]
    if plan.slurm:
        lines += [
            _FORGET_OTHERS,
            f"export SLURM_CONF='{plan.root}/etc/slurm.conf'",
            f"export DADDY_SITE={SITE}",
        ]
    if own_bin:
        lines.append(f"export PATH='{own_bin}':\"$PATH\"")
    lines.append(f"export DADDY_TESTBED='{plan.base}'")
    return "\n".join(lines) + "\n"


def passwd(lines: str, friend: str, home: str, friend_id: int) -> str:
    """Render passwd: the host's users, sshd's own user, and the second user."""
    names = {line.split(":")[0] for line in lines.splitlines()}
    extra = [] if "sshd" in names else ["sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"]
    if friend:
        extra.append(f"{friend}:x:{friend_id}:{friend_id}::{home}:/bin/bash")
    return lines.rstrip("\n") + "\n" + "".join(f"{line}\n" for line in extra)


def shadow(passwd_text: str) -> str:
    """Render shadow without passwords: the login node accepts keys only."""
    return "".join(
        f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in passwd_text.splitlines()
    )


def hosts(lines: str, machines: dict[str, str]) -> str:
    """Render hosts: the host's own lines and one for every node of the test cluster."""
    extra = "".join(f"{address} {name}\n" for name, address in machines.items())
    return lines.rstrip("\n") + "\n" + extra
