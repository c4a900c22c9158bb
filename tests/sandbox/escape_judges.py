"""Judges of the escapes: what an attempt gained, seen from the host."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

from Daddy.sandbox.sandbox_interfaces import MIB
from tests.sandbox.escapes import SLACK, Host, Judge, Played


def claimed(host: Host, played: Played) -> str:
    """Only for what leaves no trace outside: the snippet repeats a number made for this attempt."""
    return "a call that must fail succeeded" if played.nonce in played.text else ""


def read_secret(host: Host, played: Played) -> str:
    return "a planted secret was read" if host.secret in played.text else ""


def read_passwd(host: Host, played: Played) -> str:
    first = Path("/etc/passwd").read_text().splitlines()[0]
    return "the accounts of the host were read" if first in played.text else ""


def connected(name: str) -> Judge:
    """Return a judge that asks the host's listener of that name, and takes what came."""

    def judge(host: Host, played: Played) -> str:
        listener: socket.socket = getattr(host, name)
        try:
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(64)
            else:
                listener.accept()[0].close()
        except BlockingIOError:
            return ""
        return f"the host's listener ({name}) was reached"

    return judge


def harmed_victim(host: Host, played: Played) -> str:
    return "" if host.victim_is_well() else "a process of the host was signalled"


def changed(host: Host, played: Played) -> str:
    now = host.writable.read_text()
    host.writable.write_text(host.secret)
    return "" if now == host.secret else "a file of the host was changed"


def made(folder: str) -> Judge:
    def judge(host: Host, played: Played) -> str:
        path = Path(folder) / host.secret
        there = path.exists()
        path.unlink(missing_ok=True)
        return f"{path} was made on the host" if there else ""

    return judge


def over_memory(host: Host, played: Played) -> str:
    most = 256 * SLACK
    return f"{played.host_mb:.0f} MB of the host" if played.host_mb > most else ""


def over_time(host: Host, played: Played) -> str:
    return f"ran for {played.seconds:.1f} s" if played.nonce in played.text else ""


def over_output(host: Host, played: Played) -> str:
    size = max(len(part) for o in played.outcomes for part in (o.stdout, o.stderr, o.fd3_output))
    return f"{size} bytes reached the host" if size > 64 * 1024 else ""


def left_process(host: Host, played: Played) -> str:
    """Processes show a mark as their name; a host sees those of every sandbox."""
    mark = played.nonce[:12]
    left = [pid for pid, name in _names() if name == mark]
    for pid in left:
        os.kill(pid, 9)
    return f"{len(left)} processes are still there" if left else ""


def _names() -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(folder.name), (folder / "comm").read_text().strip()))
        except OSError:
            continue
    return found


def ended_sandbox(host: Host, played: Played) -> str:
    return "" if played.outcomes else "the runner was ended, stopped or spoken for"


def forged(host: Host, played: Played) -> str:
    """The attempt ends with exit code 7; a host that believed it would see another."""
    if not played.outcomes:
        return "the host's end of the pipe read what the command wrote"
    told = played.outcomes[-1].exit_code
    return "" if told == 7 else f"exit code {told} was believed"


def copied(host: Host, played: Played) -> str:
    """Look at what came to the host: links, devices, too many or too large files."""
    found = [path.lstat() for path in (host.folder / "got").rglob("*")]
    shutil.rmtree(host.folder / "got", ignore_errors=True)
    odd = [
        facts
        for facts in found
        if not stat.S_ISREG(facts.st_mode) and not stat.S_ISDIR(facts.st_mode)
    ]
    size = sum(facts.st_size for facts in found)
    if odd or size > 16 * MIB or len(found) > 10_000:
        return f"{len(odd)} links and devices, {size} bytes in {len(found)} files came"
    return ""
