"""A stand-in for the program ``docker``, whose containers are commands in bubblewrap.

``fake_docker.py FOLDER ARGUMENT…`` keeps a record of each container in FOLDER/made, and a folder of
each one that is there in FOLDER/live. As with Docker, a container's process is no child of
``docker start``, and the end of that program ends its input.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.sandbox.fake_machine import bwrap_argv

IMAGES = {"python:3-slim"}
WORDS = [
    *("entrypoint", "ipc", "log-driver", "memory", "memory-swap", "name", "network"),
    *("pids-limit", "pull", "shm-size", "user", "workdir"),
]
LISTS = ["cap-drop", "label", "mount", "security-opt", "tmpfs"]


class FakeDocker:
    """Puts the stand-in before all programs of PATH, and tells of its containers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("made", "live", "bin"):
            (folder / name).mkdir(parents=True)
        self.program = folder / "bin" / "docker"
        start = f"cd {Path(__file__).parents[2]} && exec {sys.executable} -m {__name__} {folder}"
        self.program.write_text(f'#!/bin/sh\n{start} "$@"\n')
        self.program.chmod(0o755)
        self.environ = {**os.environ, "PATH": f"{self.program.parent}:{os.environ['PATH']}"}

    def made(self) -> list[dict[str, Any]]:
        """Return the settings of all containers that were ever made."""
        return [json.loads(path.read_text()) for path in sorted(self._folder.glob("made/*"))]

    def live(self) -> set[str]:
        return {path.name for path in self._folder.glob("live/*")}


def create(folder: Path, words: list[str]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in WORDS:
        parser.add_argument(f"--{name}")
    for name in LISTS:
        parser.add_argument(f"--{name}", action="append", default=[])
    for name in ("interactive", "rm", "read-only"):
        parser.add_argument(f"--{name}", action="store_true")
    at = words.index("--")
    asked = vars(parser.parse_args(words[:at]))
    asked["image"], *asked["command"] = words[at + 1 :]
    if asked["image"] not in IMAGES:
        sys.exit(f"Error response from daemon: No such image: {asked['image']}:latest\n\nRun …")
    (folder / "live" / asked["name"]).mkdir()
    (folder / "made" / asked["name"]).write_text(json.dumps(asked))


def start(folder: Path, name: str) -> None:
    """Carry our input to a container that is no child of ours, until it ends."""
    container = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.fake_docker", str(folder), "hold", name],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )

    def carry() -> None:
        with contextlib.suppress(BrokenPipeError), container.stdin as theirs:
            while data := os.read(0, 1 << 16):
                theirs.write(data)
                theirs.flush()

    threading.Thread(target=carry, daemon=True).start()
    code = container.wait()
    sys.stdout.flush()
    os._exit(code)


def hold(folder: Path, name: str) -> None:
    """Run a container to its end, and remove it."""
    asked = json.loads((folder / "made" / name).read_text())
    place, extra = folder / "live" / name, []
    for mount in asked["mount"]:
        words = dict(word.split("=") for word in mount.split(",") if "=" in word)
        extra += ["--ro-bind", words["source"], words["target"]]
    for target in asked["tmpfs"]:
        extra += ["--tmpfs", target.partition(":")[0]]
    argv = [*bwrap_argv(place / "root", extra, asked["workdir"]), asked["entrypoint"]]
    process = subprocess.Popen([*argv, *asked["command"]])
    (place / "pid").write_text(str(process.pid))
    code = process.wait()
    shutil.rmtree(place, ignore_errors=True)
    sys.exit(abs(code))


def remove(folder: Path, name: str) -> None:
    place = folder / "live" / name
    if not place.exists():
        sys.exit(f"Error response from daemon: No such container: {name}")
    with contextlib.suppress(OSError):
        os.kill(int((place / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


def show(folder: Path, label: str) -> None:
    for place in folder.glob("live/*"):
        if label in json.loads((folder / "made" / place.name).read_text())["label"]:
            print(place.name)


def main(folder: Path, words: list[str]) -> None:
    match words:
        case ["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]:
            print(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
        case ["version", *_]:
            print("28.2.2")
        case ["create", *rest]:
            create(folder, rest)
        case ["start", "--attach", "--interactive", name]:
            start(folder, name)
        case ["hold", name]:
            hold(folder, name)
        case ["rm", "--force", "--volumes", name]:
            remove(folder, name)
        case ["ps", "--all", "--quiet", "--no-trunc", "--filter", wanted]:
            show(folder, wanted.removeprefix("label="))
        case _:
            sys.exit(f"unknown command: docker {words}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
