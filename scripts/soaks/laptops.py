"""Two laptops contribute while four jobs train and are replaced; then one turns hostile.

Two homes, two keys, two users of a real sshd; ``sync_weights.sh`` and ``run_actors_only`` as people
type them. Checked by the commit records and the receipts: contributions of both must be merged, no
attack may be, and the run's returns must not fall.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core import host_and_processes, run_subprocess
from Daddy.core.errors import SchedulerError
from Daddy.core.event_log import read_events
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.laptop.pulled_folder import newest_verified, read_receipts
from Daddy.weights.store.weight_records import Version
from scripts.demonstration.stage import Stage, fresh_run
from scripts.soaks.hostile import SPARSE_BYTES, Attack, Forge
from scripts.version_history import read_history

SITE = "demo"
BOOT_S, GRACE_S, SIEGE_S = 180.0, 10.0, 90.0
KEPT_RETURN = 0.8
"""Share of the mean return that must be left a minute and a half after the attacks."""


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

    def start(self, who: str) -> None:
        """Start the two programs that its person types in two terminals."""
        script = str(CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh")
        self._type("sync", [script, "bidirectional", "", str(self.shared), "5"], who)
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

    def lay(self, attack: Attack) -> None:
        """Send an attack's files as this laptop's own user, without our software."""
        folder = self.home / "hostile"
        folder.mkdir(exist_ok=True)
        for name, data in attack.files.items():
            (folder / name).write_bytes(data)
        box = f"{self.stage.run.shared_weights}/inbox/{self.name}"
        if attack.sparse:
            self._over_there(f"truncate -s {SPARSE_BYTES} {box}/{attack.sparse}")
        names = [str(folder / name) for name in sorted(attack.files, reverse=True)]
        ssh = f"ssh -F {self.stage.node.ssh_config}"
        self._run(["rsync", "-e", ssh, *names, f"{self.login}:{box}/"])

    def _over_there(self, command: str) -> None:
        self._run(["ssh", "-F", self.stage.node.ssh_config, self.login, command])

    def _run(self, argv: Sequence[str]) -> None:
        env = {**os.environ, "PATH": self.stage.node.path}
        done = run_subprocess.run_command(argv, 60.0, env=env)
        if done.returncode:
            raise SchedulerError(f"{argv[0]} failed: {done.stderr.strip()[-300:]}")


def run(minutes: float, seed: int, keep: Path | None) -> dict[str, Any]:
    """Contribute for ``minutes``, then attack; return the figures. ``seed`` is not used."""
    del seed
    with (
        fresh_run(keep, SITE) as (folder, paths),
        Stage(paths, SITE, slurm=False, headless=True) as stage,
    ):
        stage.start_login_node()
        if not stage.node.by_ssh or not stage.node.facts.get("friend"):
            raise SchedulerError("this soak needs two users of an sshd", "run it as root")
        laptops = _laptops(stage, folder)
        try:
            return _siege(stage, laptops, minutes * 60.0)
        finally:
            for laptop in laptops:
                laptop.end()


def _laptops(stage: Stage, folder: Path) -> list[Laptop]:
    shutil.rmtree(folder / "homes", ignore_errors=True)
    return [
        Laptop("anna", "login", folder / "homes" / "anna", stage),
        Laptop("ben", "friend", folder / "homes" / "ben", stage),
    ]


def _siege(stage: Stage, laptops: list[Laptop], seconds: float) -> dict[str, Any]:
    stage.start_controller(9999)
    shared = SharedPaths(stage.run.shared_weights)
    _wait_for(shared.run.exists, "no job wrote the run's card")
    box = shared.inbox / "ben"  # what an owner does for a friend with an account of his own
    box.mkdir(parents=True, exist_ok=True)
    box.chmod(0o777)
    for laptop, key in zip(laptops, ("user", "friend"), strict=True):
        laptop.start(str(stage.node.facts[key]))
    _let_pass(seconds, "contributing", laptops)
    received = {entry.name: entry.receipts() for entry in laptops}
    before, hostile = _mean_return(stage.run), laptops[1]
    hostile.end()
    attacks, proof = _attacks(hostile), hostile.home / "unpickled"
    for attack in [*attacks, *(item for item in attacks if item.welcome)]:
        hostile.lay(attack)
    _let_pass(SIEGE_S, "under attack", laptops)
    figures = _figures(stage, received, attacks, before)
    figures["broken"] += ["a pickle was loaded"] * proof.exists()
    stage.stop_controller()
    return figures


def _attacks(hostile: Laptop) -> list[Attack]:
    newest = newest_verified(hostile.shared)
    if newest is None:
        raise SchedulerError("the second laptop has pulled no version")
    weights = decode(newest.data, newest.head.schema)
    return Forge(hostile.name, newest.head, weights, hostile.home / "unpickled").all()


def _figures(
    stage: Stage, received: dict[str, Counter[str]], attacks: list[Attack], before: float
) -> dict[str, Any]:
    versions = read_history(SharedPaths(stage.run.shared_weights)).versions
    after = _mean_return(stage.run)
    entered = Counter(merged.incarnation for version in versions for merged in version.inputs)
    inside = [attack.name for attack in attacks if entered[attack.incarnation] > attack.welcome]
    broken = [f"{name} entered a version" for name in inside]
    broken += [f"nothing of {name} was accepted" for name, of in received.items()
               if not of["accepted"]]  # fmt: skip
    last = versions[-1]
    own = sum(steps for peer, steps in last.contributors.items() if peer.startswith("slot-"))
    broken += ["claimed steps were believed"] if last.fleet_steps > 2 * own else []
    broken += ["the return fell"] if after < KEPT_RETURN * before else []
    return {
        "versions": len(versions) - 1,
        "jobs": len({item.incarnation for version in versions for item in version.inputs
                     if item.peer.startswith("slot-")}),
        "receipts": {name: dict(of) for name, of in received.items()},
        "share": {name: _share(versions, name) for name in received},
        "refused": {entry.name: _refusal(versions, entry) for entry in attacks},
        "mean_return": {"before": round(before, 2), "after": round(after, 2)},
        "broken": broken,
    }  # fmt: skip


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


def _let_pass(seconds: float, what: str, laptops: list[Laptop]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        said = ", ".join(f"{laptop.name} {dict(laptop.receipts())}" for laptop in laptops)
        print(f"  {what}, {left:.0f} s left: {said}", file=sys.stderr, flush=True)
        time.sleep(min(15.0, left))


def _wait_for(ready: Callable[[], bool], said: str) -> None:
    until = time.monotonic() + BOOT_S
    while not ready():
        if time.monotonic() > until:
            raise SchedulerError(f"{said} within {BOOT_S:.0f} s")
        time.sleep(0.5)
