"""Adapter for bubblewrap: makes sandboxes of Linux namespaces, without root and without Docker."""

import os
from pathlib import Path
from typing import Any

from Daddy.core.errors import SandboxError
from Daddy.sandbox.interfaces import Isolation, SandboxSpec
from Daddy.sandbox.runner_client import RUNNER, RunnerSandbox, runner_argv, start_runner

_UNPRIVILEGED = 64000


def host_image() -> list[str]:
    links = [
        p
        for n in ("bin", "sbin", "lib", "lib64")
        for p in ("--symlink", f"usr/{n}", f"/{n}")
        if Path("/", n).is_symlink()
    ]
    return [
        "--ro-bind",
        "/usr",
        "/usr",
        *links,
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
    ]


def bubblewrap_argv(spec: SandboxSpec) -> list[str]:
    argv = [
        "bwrap",
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--hostname",
        "sandbox",
        "--cap-add",
        "CAP_SYS_ADMIN",
        "--cap-add",
        "CAP_SETPCAP",
        "--cap-add",
        "CAP_SYS_PTRACE",
        *host_image(),
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--dir",
        "/tmp",
        "--dir",
        "/files",
    ]
    for folder in spec.read_only:
        argv += ["--ro-bind", str(folder), str(folder)]
    argv += ["--ro-bind", str(RUNNER), "/run/sandbox/runner", "--remount-ro", "/"]
    return [*argv, *runner_argv("/usr/bin/python3", "/run/sandbox", _mode(spec), spec.lifetime_s)]


def _mode(spec):
    return "persistent" if spec.persistent else "fresh"


class BubblewrapBackend:
    """Makes sandboxes with bubblewrap."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self._next = 0

    def isolation(self) -> Isolation:
        return Isolation("confined")

    async def create(self, spec: SandboxSpec) -> RunnerSandbox:
        options = {}
        if os.geteuid() == 0:
            uid = _UNPRIVILEGED + self._next
            self._next = (self._next + 1) % 1000
            options = {"user": uid, "group": uid, "extra_groups": []}
        return await start_runner(bubblewrap_argv(spec), _mode(spec), **options)
