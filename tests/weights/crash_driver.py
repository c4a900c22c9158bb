"""Kills real processes at a named kill point and checks the files that are left. Run by test_crash.

Prints one JSON line per kill point. Forks, so that torch is loaded once.
"""

import json
import os
import signal
import tempfile
from pathlib import Path

import torch

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, Peer, begin, make_state, perturbed

TRUTHS = ("blob", "contribution", "state", "record")
HINTS = ("card", "head", "part", "keyframe", "wan-head", "beat")
POINTS = [f"C{step}:{what}" for what in TRUTHS for step in range(1, 6)]
POINTS += [f"C{step}:{what}" for what in HINTS for step in (2, 5)]
POINTS += ["C5:receipt", "C6", "C7", "C8", "C9", "C10", "C11", "C12"]
ROUNDS = 2


class Trap:
    """A hook that kills its own process the n-th time a point is passed."""

    def __init__(self, point: str, count: int) -> None:
        self.point, self.left = point, count

    def __call__(self, point: str) -> None:
        self.left -= point == self.point
        if self.left == 0 and point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


def laptop_box(root: Path) -> None:
    """Put a laptop's contribution into its box as rsync leaves it."""
    from Daddy.weights.laptop.laptop_exchange import LaptopExchange

    local = root.parent / "laptop"
    local.mkdir(exist_ok=True)
    if not (local / "wan").exists():
        (local / "wan").symlink_to(root / "wan")
    laptop = LaptopExchange(local, "anna", os.urandom(4).hex(), ManualClock())
    weights = laptop.join_fleet(make_state, None).weights
    laptop.publish(perturbed(weights, 77), 50, 5)
    box = root / "inbox" / "anna"
    box.mkdir(parents=True, exist_ok=True)
    for ending in ("*.st", "*.json"):
        for path in (local / "outbox" / "anna").glob(ending):
            path.rename(box / path.name)


def work(root: Path, hook, rounds: int, said: Path, seed: int) -> None:
    """Run two jobs and a laptop for some rounds; write every durable promise beside the folder."""
    clock = ManualClock()
    peers = [begin(root, f"slot-{k}", clock, hook=hook) for k in range(2)]
    for round_ in range(rounds):
        laptop_box(root)
        for number, peer in enumerate(peers):
            peer.learn(seed + 10 * round_ + number)
            note(said, "trying", peer)
            if "contribution" in peer.publish():
                note(said, "published", peer)
            clock.pass_by(6)
            peer.adopt()
            with said.open("a") as stream:
                stream.write(f"seen {peer.version}\n")


def note(said: Path, word: str, peer: Peer) -> None:
    sequence = json.loads(peer.exchange.resume_state())["sequence"]
    with said.open("a") as stream:
        stream.write(f"{word} {peer.incarnation} {sequence}\n")


def crash(root: Path, point: str, count: int, said: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(root, Trap(point, count), ROUNDS, said, seed=1)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def look(root: Path, said: Path) -> dict[str, object]:
    """Check invariants right after the kill, and again after others have continued."""
    lines = [line.split() for line in said.read_text().splitlines()] if said.exists() else []
    seen = max((int(words[1]) for words in lines if words[0] == "seen"), default=-1)
    promised = {(w[1], int(w[2])) for w in lines if w[0] == "published"}
    paths = SharedPaths(root)
    after_kill = Store(paths).newest()
    readable = after_kill is None or bool(
        Store(paths).read_blob(Store(paths).version(after_kill).state)
    )
    work(root, lambda _: None, ROUNDS + 1, said.with_suffix(".later"), seed=1000)
    history = read_history(paths)
    judged = [
        (merged.incarnation, merged.sequence)
        for version in history.versions
        for merged in (*version.inputs, *version.refused)
    ]
    head, frame = Store(paths).head(), Store(paths).keyframe()
    newest = len(history.versions) - 1
    return {
        "readable": readable,
        "never_older": (after_kill if after_kill is not None else -1) >= seen,
        "chained": history.chained,
        "once": len(set(judged)) == len(judged),
        "none_lost": promised <= set(judged),
        "went_on": newest > (after_kill if after_kill is not None else -1),
        "heads_mended": bool(head and frame and head.version == frame.version == newest),
        "flaw": history.flaw,
        "lost": sorted(promised - set(judged)),
    }


MEMORY = Path("/dev/shm")
"""A kill loses nothing that a disk would keep, so a folder in memory will do."""


def main() -> None:
    torch.set_num_threads(1)
    cases = [(point, 1) for point in POINTS]
    cases += [(point, 2) for point in POINTS if ":" not in point]  # and when versions exist
    for point, count in cases:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            root, said = Path(folder) / "shared", Path(folder) / "said"
            status = crash(root, point, count, said)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            facts = look(root, said)
            print(json.dumps({"point": point, "count": count, "killed": killed, **facts}))


if __name__ == "__main__":
    main()
