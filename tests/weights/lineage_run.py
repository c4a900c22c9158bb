"""A run with jobs, laptops, refusals and adoptions, some of them with a KL.

Everything in the folder was written by real exchanges; only the learners' events are written here,
as their loop writes them.
"""

import contextlib
import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.event_log import EventWriter
from Daddy.core.lease import Lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.store.weight_records import Contribution, parse
from tests.weights.helpers import ManualClock, Peer, begin, make_state, perturbed
from tests.weights.test_weight_exchange import rewrite


@dataclass
class LineageRun:
    """A run directory, its jobs, and laptops whose pull and push are links and renames."""

    root: Path
    jobs: int = 3
    clock: ManualClock = field(default_factory=ManualClock)
    changes: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run = RunPaths(self.root / "runs" / "lineage")
        self.shared = self.run.shared_weights
        self.peers = {f"slot-{k}": self._job(k) for k in range(self.jobs)}
        self.laptops: dict[str, tuple[LaptopExchange, dict, list[int]]] = {}
        self.round = 0

    def _job(self, number: int) -> Peer:
        peer = begin(self.shared, f"slot-{number}", self.clock, **self.changes)
        name = f"slot-{number}"
        peer.events = EventWriter(self.run.events, "test", "cartpole", "learner", name, self.clock)
        self.tell(peer, peer.version)
        return peer

    def tell(self, peer: Peer, version: int, kl: float | None = None) -> None:
        """Write the event that a learner's loop writes after an adoption."""
        data = {"token": "t", "job_id": "1", "state": "adopted", "version": version, "reason": "r"}
        peer.events.write("state", peer.env_steps, data | ({} if kl is None else {"kl": kl}))

    def play(self, rounds: int, *, kl: bool = False, seconds: float = 30.0) -> None:
        """Let all learn, offer and adopt, round after round; the last job is slower."""
        for _ in range(rounds):
            self.round += 1
            self.clock.pass_by(seconds)
            for number, peer in enumerate(self.peers.values()):
                if number == len(self.peers) - 1 and len(self.peers) > 2 and self.round % 4:
                    peer.learn(self.round * 10 + number, steps=60, scale=0.03)
                    continue
                peer.learn(self.round * 10 + number, steps=256)
                peer.publish()
                self._adopt(peer, kl=kl)

    def _adopt(self, peer: Peer, *, kl: bool) -> None:
        version = peer.adopt()
        if version is not None:
            self.tell(peer, version, 0.002 * (1 + self.round % 7) if kl else None)

    def laptop(self, name: str) -> Path:
        """Return the folder of a laptop that has joined."""
        local = self.root / name
        if name not in self.laptops:
            local.mkdir()
            (local / "wan").symlink_to(self.shared / "wan")
            (local / "receipts").mkdir()
            (local / "receipts" / name).symlink_to(self.shared / "receipts" / name)
            exchange = LaptopExchange(local, name, os.urandom(4).hex(), self.clock, min_seconds=0)
            weights = dict(exchange.join_fleet(make_state, None).weights)
            self.laptops[name] = (exchange, weights, [0])
        return local

    def contribute(self, name: str, *, scale: float = 0.05, bad: bool = False) -> None:
        """Let a laptop adopt, learn and send; ``bad``: its file is truncated."""
        local = self.laptop(name)
        exchange, weights, count = self.laptops[name]
        count[0] += 1
        adoption = exchange.adopt(weights)
        weights.update(adoption.weights if adoption else {})
        weights.update(perturbed(weights, count[0] * 77, scale))
        exchange.publish(weights, 200 * count[0], 10 * count[0])
        box = self.shared / "inbox" / name
        box.mkdir(parents=True, exist_ok=True)
        for ending in ("*.st", "*.json"):
            for path in sorted((local / "outbox" / name).glob(ending)):
                if bad and path.suffix == ".st":
                    path.write_bytes(path.read_bytes()[:-5])
                path.rename(box / path.name)

    def poison(self, number: int) -> None:
        """Let a job offer a well-formed contribution with one value that is not finite."""
        peer = self.peers[f"slot-{number}"]
        peer.learn(number)
        state = make_state(5)
        state["core.bias"][1] = math.nan
        with self.shut_lease():  # so that it waits until it has been spoilt
            peer.publish()
        record = max(self.shared.glob(f"peers/slot-{number}/{peer.incarnation}/0*.json"))
        offer = parse(Contribution, record.read_bytes(), "it")
        rewrite(SharedPaths(self.shared), record, offer, encode(state))

    @contextlib.contextmanager
    def shut_lease(self):
        lease = Lease.acquire(SharedPaths(self.shared).lease, {"merger": "test"})
        yield
        lease.release("done")


def everything_below(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return each path with its time and bytes, to detect changes."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }
