"""Apptainer from unpacked packages, Docker with a stand-in, and Daytona against a local fake."""

import atexit
import functools
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from Daddy.sandbox.docker_backend import DockerBackend
from Daddy.sandbox.sandbox_interfaces import Backend, Sandbox, SandboxSpec
from tests.components import program
from tests.sandbox.fake_docker import FakeDocker
from tests.sandbox.sdk_packages import use_sdk

PACKAGES = Path(__file__).resolve().parents[2] / "runs" / "packages" / "apptainer"
"""A root file system of Debian unstable with Apptainer, which needs its libraries."""


@functools.cache
def apptainer_program() -> Path:
    """Return a program that runs Apptainer: the machine's, or the unpacked one in its own root."""
    root = PACKAGES / "rootfs"
    if not (root / "usr/bin/apptainer").exists():
        return Path(program("apptainer", "Apptainer: ./scripts/sandbox_components unpacks it"))
    bwrap = program("bwrap", "bubblewrap")
    shown = ["--dev /dev", "--bind /proc /proc", "--bind /sys /sys"]
    for folder in ("/tmp", "/var/cache", str(PACKAGES.parents[2])):
        (root / folder[1:]).mkdir(parents=True, exist_ok=True)
        shown.append(f"--bind {folder} {folder}")
    path = PACKAGES / "apptainer"
    lines = ["#!/bin/sh", f"exec {bwrap} --bind {root} / {' '.join(shown)} --cap-add ALL -- \\"]
    path.write_text("\n".join([*lines, '  /usr/bin/apptainer "$@"', ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def apptainer() -> Backend:
    if sys.platform != "linux":
        pytest.skip("Apptainer needs Linux")
    from Daddy.sandbox.apptainer import ApptainerBackend

    class Unpacked(ApptainerBackend):
        """Shows the packages' own root in place of this machine's /usr, which they do not see."""

        async def create(self, spec: SandboxSpec) -> Sandbox:
            if spec.image == "host" and (PACKAGES / "rootfs").exists():
                spec = replace(spec, image=f"dir:{PACKAGES / 'rootfs'}")
            return await super().create(spec)

    return Unpacked(str(apptainer_program()))


@functools.cache
def fake_daytona() -> Any:
    program("bwrap", "bubblewrap")
    use_sdk("daytona")
    from tests.sandbox.fake_daytona import FakeDaytona

    fake = FakeDaytona()
    atexit.register(fake.close)
    return fake


def daytona() -> Backend:
    fake = fake_daytona()
    from Daddy.sandbox.daytona_backend import DaytonaBackend
    from tests.sandbox.fake_daytona import KEY

    environ = {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": f"{fake.url}/api"}
    return DaytonaBackend("run-of-the-tests", environ)


@functools.cache
def fake_docker() -> FakeDocker:
    program("bwrap", "bubblewrap")
    folder = tempfile.TemporaryDirectory(prefix="fake-docker-")
    atexit.register(folder.cleanup)
    return FakeDocker(Path(folder.name))


def docker() -> Backend:
    return DockerBackend("run-of-the-tests", fake_docker().environ)
