"""Two laptops contribute while four jobs train and are replaced; for half of the time a third lies.

Own homes, two users of a real sshd; ``sync_weights.sh`` and ``run_actors_only`` as people type
them. The hostile one has an account of its own and writes into its box without our software, every
``RAID_S`` seconds all attacks at once; strangers hold connections to the viewer. Checked by commit
records, receipts, disk and ``status``: versions come as often as in the peaceful half, both honest
laptops are counted in both halves, no attack is, the disk is bounded, the run's returns do not
fall, the viewer goes on, and ``status`` names the enemy.
"""

from __future__ import annotations

import itertools
import operator
import os
import shlex
import shutil
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from Daddy.core import host_and_processes, run_subprocess
from Daddy.core.errors import SchedulerError
from Daddy.core.event_log import read_events
from Daddy.core.load_config import CHECKOUT
from Daddy.core.name_validation import SLOT
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.laptop.pulled_folder import newest_verified, read_receipts
from Daddy.weights.merge.cleanup import SENDER_BYTES
from Daddy.weights.merge.contributions import BOX_BYTES
from Daddy.weights.store.weight_records import Version
from scripts.benches._stream_login import free_port
from scripts.demonstration.stage import Stage, fresh_run
from scripts.soaks.hostile import SPARSE_BYTES, Attack, Forge
from scripts.version_history import read_history

SITE = "demo"
BOOT_S, GRACE_S, RAID_S = 600.0, 10.0, 20.0
KEPT_RETURN = 0.8
"""Share of the mean return that must be left at the end."""
RHYTHM = 0.9
"""Versions per second of the besieged half by those of the peaceful one, at least."""
SPOILT_BYTES = BOX_BYTES + 2 * SENDER_BYTES
"""Most bytes of boxes and quarantine together at the end: of one sender, waiting and set aside."""
STRANGERS = 16
"""Connections to the viewer that prove nothing and stay."""
ENEMY = "mallory"
_NO_CONNECTION = 255
"""Exit code of ssh, and of rsync over it, without a connection."""
_ODD = """
cd {box}
ln -sfn "$HOME" {stem}-000001-aaaaaaaaaaaa.json
ln -sfn /etc/passwd {stem}-000001-aaaaaaaaaaaa.st
mkfifo {stem}-000002-bbbbbbbbbbbb.json
mkdir -p {stem}-000003-cccccccccccc.json/deep {stem}-folder/deep
truncate -s {sparse} {stem}-000004-dddddddddddd.st
head -c 20000000 /dev/urandom > {stem}-000005-eeeeeeeeeeee.st
echo '[' > {stem}-000005-eeeeeeeeeeee.json
"""
"""Shell commands that leave links, a pipe, folders and files without a use in the box."""


@dataclass
class Laptop:
    """One person's machine: a name, a home, a login on the test cluster."""

    name: str
    login: str
    home: Path
    stage: Stage

    @property
    def shared(self) -> Path:
        return self.home / "shared_weights"

    def sync(self, direction: str, who: str) -> None:
        """Start ``sync_weights.sh``, as its person types it in one terminal."""
        script = str(CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh")
        self._type("sync", [script, direction, "", str(self.shared), "5"], who)

    def play(self, who: str) -> None:
        """Start ``run_actors_only``, as its person types it in the other."""
        play = [sys.executable, "-m", "Daddy.run_actors_only", "--shared-dir", str(self.shared)]
        play += ["--contribute", "--num-envs", "4", "--device", "cpu", "--cartridge"]
        play += ["--user-id", self.name, "--run-dir", str(self.home / "run")]
        self._type("play", [*play, "--wait-seconds", "180"], who)

    def _type(self, what: str, argv: Sequence[str], who: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SYNC_")}
        env = {
            **kept,
            "HOME": str(self.home),
            "PATH": self.stage.node.path,
            "DADDY_PYTHON": sys.executable,
            "SYNC_CLUSTER_HOST": self.login,
            "SYNC_CLUSTER_USER": who,
            "SYNC_SSH_CONFIG": self.stage.node.ssh_config,
            "SYNC_REMOTE_DIR": str(self.stage.run.shared_weights),
        }
        log = self.home / f"{what}.log"
        self.processes.append(
            run_subprocess.start_background(argv, log_path=log, env=env, cwd=CHECKOUT)
        )

    def __post_init__(self) -> None:
        self.processes: list[host_and_processes.ProcessId] = []
        self.whole_raids = 0
        self.home.mkdir(parents=True)

    def end(self) -> None:
        """End its programs, as when the lid is closed."""
        for process in self.processes:
            host_and_processes.terminate_tree(process, GRACE_S)
        self.processes.clear()

    def receipts(self) -> Counter[str]:
        """Return counts of receipts: accepted, or by the reason of the refusal."""
        found = read_receipts(self.shared, self.name)
        return Counter("accepted" if item.accepted else item.reason for item in found)

    def raid(self, attacks: Sequence[Attack], number: int) -> None:
        """Lay all attacks into the box at once, as this laptop's own user, without our software.

        A part may fail, because the merger empties the box meanwhile; ``whole_raids`` counts the
        others.
        """
        folder = self.home / "hostile"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in (pair for attack in attacks for pair in attack.files.items()):
            (folder / name).write_bytes(data)
        box = f"{self.stage.run.shared_weights}/inbox/{self.name}"
        odd = _ODD.format(box=box, stem=f"bad{number:03x}ff", sparse=SPARSE_BYTES)
        sparse = [f"truncate -s {SPARSE_BYTES} {item.sparse}" for item in attacks if item.sparse]
        ssh = f"ssh -F {self.stage.node.ssh_config}"
        copy = ["rsync", "-r", "-e", ssh, f"{folder}/", f"{self.login}:{box}/"]
        laid = (self.do("\n".join([odd, *sparse])), self._run(copy))
        self.whole_raids += all(laid)

    def do(self, *words: str) -> bool:
        """Run a shell command on the login node as its user; return True if it succeeds."""
        return self._run(["ssh", "-F", self.stage.node.ssh_config, self.login, " ".join(words)])

    def _run(self, argv: Sequence[str]) -> bool:
        env = {**os.environ, "PATH": self.stage.node.path}
        done = run_subprocess.run_command(argv, 60.0, env=env)
        if done.returncode == _NO_CONNECTION:
            raise SchedulerError(f"{argv[0]} failed: {done.stderr.strip()[-300:]}")
        return not done.returncode


def run(minutes: float, seed: int, keep: Path | None) -> dict[str, Any]:
    """Contribute for ``minutes``, under attack in their second half. ``seed`` is not used."""
    del seed
    with (
        fresh_run(keep, SITE) as (folder, paths),
        Stage(paths, SITE, slurm=False, headless=True) as stage,
    ):
        stage.start_login_node()
        if not stage.node.by_ssh or not stage.node.facts.get("friend"):
            raise SchedulerError("this soak needs two users of an sshd", "run it as root")
        shutil.rmtree(folder / "homes", ignore_errors=True)
        laptops = [
            Laptop(name, login, folder / "homes" / name, stage)
            for name, login in (("anna", "login"), ("ben", "login"), (ENEMY, "friend"))
        ]
        try:
            port = _begin(stage, *laptops)
            return _soak(stage, laptops[:2], laptops[2], port, minutes * 30.0)
        finally:
            for laptop in laptops:
                laptop.end()


def _begin(stage: Stage, anna: Laptop, ben: Laptop, enemy: Laptop) -> int:
    """Start run, viewer and laptops; wait until all of them take part; return the viewer's port."""
    port = free_port()
    stage.start_viewer(port)
    stage.open_tunnel(port)
    stage.start_controller(port)
    shared = SharedPaths(stage.run.shared_weights)
    _wait_for(shared.run.exists, "no job wrote the run's card")
    _let_in(enemy, shared)
    for laptop in (anna, ben):
        laptop.sync("bidirectional", str(stage.node.facts["user"]))
        laptop.play(str(stage.node.facts["user"]))
    enemy.sync("pull", str(stage.node.facts["friend"]))
    _wait_for(lambda: newest_verified(enemy.shared) is not None, "the enemy pulled no version")
    _wait_for(lambda: anna.receipts()["accepted"] > 0, "anna was not counted")
    _wait_for(lambda: ben.receipts()["accepted"] > 0, "ben was not counted")
    return port


def _let_in(enemy: Laptop, shared: SharedPaths) -> None:
    """Make the enemy's account a friend, as its owner types it, and open a box to it by hand."""
    enemy.home.chmod(0o777)
    theirs = enemy.home / "jobs"
    enemy.do("mkdir", "-p", str(theirs))
    add = [sys.executable, "-m", "Daddy.weights.friends", "add", "friend", str(theirs)]
    said = run_subprocess.run_command([*add, "--of", str(shared.root)], 60.0, cwd=CHECKOUT).stdout
    for line in said.splitlines():
        if line.lstrip().startswith("chmod"):
            run_subprocess.run_command(shlex.split(line), 60.0)
    box = shared.inbox / ENEMY
    box.mkdir(parents=True, exist_ok=True)
    for folder in (shared.inbox, box):
        folder.chmod(0o777)


def _soak(
    stage: Stage, honest: list[Laptop], enemy: Laptop, port: int, seconds: float
) -> dict[str, Any]:
    attacks: list[Attack] = []
    marks = [_Mark.read(stage, honest)]
    _let_pass(seconds, "at peace", honest)
    marks.append(_Mark.read(stage, honest))
    with ExitStack() as strangers:
        for _ in range(STRANGERS):
            stranger = socket.create_connection(("127.0.0.1", port))
            strangers.enter_context(stranger)
        _let_pass(seconds, "under attack", honest, lambda: attacks.extend(_raid(enemy, attacks)))
        marks.append(_Mark.read(stage, honest))
    figures = _figures(stage, marks, attacks)
    figures["whole_raids"] = enemy.whole_raids
    figures["broken"] += ["a pickle was loaded"] * (enemy.home / "unpickled").exists()
    figures["broken"] += ["no raid was laid whole"] * (not enemy.whole_raids)
    stage.stop_controller()
    return figures


def _raid(enemy: Laptop, laid: Sequence[Attack]) -> list[Attack]:
    """Forge all attacks anew against the newest version, lay them into the box, return them."""
    newest, number = newest_verified(enemy.shared), len({item.raid for item in laid})
    if newest is None:
        raise SchedulerError("the hostile laptop has no version any more")
    weights = decode(newest.data, newest.head.schema)
    forge = Forge(enemy.name, newest.head, weights, enemy.home / "unpickled", number)
    attacks = forge.all()
    enemy.raid(attacks, number)
    return attacks


class _Mark(NamedTuple):
    """The run at one moment: seconds, contributions accepted, mean return, the viewer's lines."""

    at: float
    accepted: dict[str, int]
    mean_return: float
    viewer_lines: int

    @classmethod
    def read(cls, stage: Stage, honest: Sequence[Laptop]) -> _Mark:
        accepted = {entry.name: entry.receipts()["accepted"] for entry in honest}
        lines = (stage.run.logs / "viewer.log").read_text(errors="replace").count("\n")
        return cls(time.time(), accepted, _mean_return(stage.run), lines)


def _figures(stage: Stage, marks: list[_Mark], attacks: list[Attack]) -> dict[str, Any]:
    shared = SharedPaths(stage.run.shared_weights)
    history, screen = read_history(shared), stage.status()
    versions, halves = history.versions, list(itertools.pairwise(marks))
    rhythm = [
        60.0 * sum(first.at < version.ts <= last.at for version in versions) / (last.at - first.at)
        for first, last in halves
    ]
    accepted = {
        name: [last.accepted[name] - first.accepted[name] for first, last in halves]
        for name in marks[0].accepted
    }
    lines = [last.viewer_lines - first.viewer_lines for first, last in halves]
    spoilt = sum(_bytes_on_disk(folder) for folder in (shared.inbox, shared.quarantine))
    inside = _entered(versions, attacks)
    own = sum(steps for peer, steps in versions[-1].contributors.items() if SLOT.fullmatch(peer))
    faults = {
        history.flaw: not history.chained,
        f"{inside} entered a version": inside,
        "an honest laptop was not counted": not all(min(of) for of in accepted.values()),
        "claimed steps were believed": versions[-1].fleet_steps > 2 * own,
        "versions came seldom": rhythm[1] < RHYTHM * rhythm[0],
        "the return fell": marks[2].mean_return < KEPT_RETURN * marks[1].mean_return,
        "the enemy's files are kept": spoilt > SPOILT_BYTES,
        "status does not name the enemy": ENEMY not in screen,
        "the viewer stood still": not lines[1],
    }
    return {
        "versions": len(versions) - 1,
        "jobs": len({item.incarnation for version in versions for item in version.inputs
                     if SLOT.fullmatch(item.peer)}),
        "raids": len({item.raid for item in attacks}),
        "versions_per_minute": [round(value, 2) for value in rhythm],
        "accepted": accepted,
        "share": {name: _share(versions, name) for name in (*accepted, ENEMY)},
        "refused": {item.name: _refusal(versions, item) for item in attacks},
        "spoilt_bytes": spoilt,
        "viewer_lines": lines,
        "mean_return": [round(mark.mean_return, 2) for mark in marks],
        "status": screen.splitlines(),
        "broken": [name for name, found in faults.items() if found],
    }  # fmt: skip


def _entered(versions: Sequence[Version], attacks: Sequence[Attack]) -> list[str]:
    """Return the names of attacks of which more entered versions than may."""
    entered = Counter(merged.incarnation for version in versions for merged in version.inputs)
    surplus = Counter[tuple[str, int]]()
    for item in attacks:
        surplus[item.name, item.raid] += entered[item.incarnation] - item.welcome
    return sorted({name for (name, _), count in surplus.items() if count > 0})


def _bytes_on_disk(folder: Path) -> int:
    """Return the bytes that ``folder`` really takes."""
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*"))


def _share(versions: Sequence[Version], peer: str) -> float:
    """Return one peer's part of all merged shares."""
    shares = [(merged.peer, merged.share) for version in versions for merged in version.inputs]
    total = sum(share for _, share in shares)
    return round(sum(share for name, share in shares if name == peer) / max(total, 1e-9), 4)


def _refusal(versions: Sequence[Version], attack: Attack) -> str:
    said = [refusal.reason for version in versions for refusal in version.refused
            if refusal.incarnation == attack.incarnation]  # fmt: skip
    return said[-1] if said else "never read" if not attack.welcome else "counted once"


def _mean_return(run: RunPaths, newest: int = 60) -> float:
    """Return the mean return of the newest episodes of all learners."""
    rows = [
        (event["ts"], value)
        for event in read_events(run.events, "learner-*.jsonl")
        if event["event"] == "result"
        for value in event["data"].get("returns", [])
    ]
    values = [value for _, value in sorted(rows)[-newest:]]
    return statistics.mean(values) if values else 0.0


def _let_pass(
    seconds: float, what: str, laptops: list[Laptop], act: Callable[[], object] = int
) -> None:
    """Wait; on a busy machine until each laptop was counted again, at most BOOT_S longer."""

    def accepted() -> list[int]:
        return [laptop.receipts()["accepted"] for laptop in laptops]

    until, before = time.monotonic() + seconds, accepted()
    while (left := until - time.monotonic()) > 0 or (
        left > -BOOT_S and any(map(operator.eq, before, accepted()))
    ):
        act()
        said = ", ".join(f"{laptop.name} {dict(laptop.receipts())}" for laptop in laptops)
        print(f"  {what}, {max(0.0, left):.0f} s left: {said}", file=sys.stderr, flush=True)
        time.sleep(min(RAID_S, left) if left > 0 else RAID_S)


def _wait_for(ready: Callable[[], bool], said: str) -> None:
    begun = told = time.monotonic()
    while not ready():
        if (now := time.monotonic()) > begun + BOOT_S:
            raise SchedulerError(f"{said} within {BOOT_S:.0f} s")
        if now > told + RAID_S:
            print(f"  {said} yet, after {now - begun:.0f} s", file=sys.stderr, flush=True)
            told = now
        time.sleep(0.5)
