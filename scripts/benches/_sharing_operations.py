"""File operations of one merge and of one check without news, counted in the process itself.

Each runs in a process of its own, which has read nothing of the folder before the merge. strace
counts where it is installed, else an audit hook does, which sees no ``stat``. On a network file
system each operation may be a round trip: seconds are given at 20 ms each. Run as a file with
another tree on PYTHONPATH, it measures that tree's code.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from Daddy.core.clock import SystemClock
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.weight_exchange import SharedExchange

PEERS = (1, 4, 8, 32)
ROUND_TRIP_S = 0.02
STILL_S = 2.5
"""Seconds after which a folder that did not change is believed to stand still."""
VERSIONS = 20
"""Versions before the one that is counted: more than are kept."""

KINDS = {
    "openat": "open", "open": "open", "creat": "open",
    "newfstatat": "stat", "stat": "stat", "lstat": "stat", "statx": "stat", "access": "stat",
    "faccessat": "stat", "faccessat2": "stat", "readlink": "stat",
    "getdents": "getdents", "getdents64": "getdents",
    "link": "link", "linkat": "link", "symlink": "link",
    "rename": "rename", "renameat": "rename", "renameat2": "rename",
    "unlink": "unlink", "unlinkat": "unlink", "rmdir": "unlink",
    "mkdir": "mkdir", "mkdirat": "mkdir", "chmod": "chmod", "fchmodat": "chmod",
    "utimensat": "utime", "fsync": "fsync", "fdatasync": "fsync",
}  # fmt: skip
AUDITED = {
    "open": "open", "os.listdir": "getdents", "os.scandir": "getdents", "os.link": "link",
    "os.rename": "rename", "os.remove": "unlink", "os.rmdir": "unlink", "os.mkdir": "mkdir",
    "os.chmod": "chmod", "os.utime": "utime",
}  # fmt: skip
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")


class _Silent:
    def write(self, event: str, step: int, data: object) -> None:
        """Events are of no interest here."""


def measure(peers: tuple[int, ...] = PEERS) -> dict[str, object]:
    """Return for each number of peers the operations of both, by kind, and their seconds."""
    return {str(count): _of(count) for count in peers}


def _of(count: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="daddy-bench-") as folder:
        root = Path(folder) / "shared_weights"
        _prepare(root, count)
        found = {what: _count(root, what) for what in ("merge", "look")}
    return {
        "counted_by": "strace" if shutil.which("strace") else "audit hook (no stat)",
        **{what: {"operations": sum(kinds.values()), "kinds": dict(sorted(kinds.items())),
                  "seconds_at_20_ms": round(ROUND_TRIP_S * sum(kinds.values()), 2)}
           for what, kinds in found.items()},
    }  # fmt: skip


def _exchange(root: Path, slot: int) -> SharedExchange:
    settings = ExchangeSettings(run="bench", workload="none", period_s=3600.0)
    incarnation = f"{slot:08x}"
    return SharedExchange(
        SharedPaths(root), f"slot-{slot}", incarnation, settings, SystemClock(), _Silent()
    )


def _state(seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {"layer": torch.randn(64, 64), "bias": torch.randn(64)}


def _prepare(root: Path, count: int) -> None:
    """Make ``VERSIONS`` versions, and for each peer one contribution that none has judged."""
    group = [_exchange(root, slot) for slot in range(count)]
    weights = [dict(entry.join_fleet(lambda: _state(0), None).weights) for entry in group]
    for round_ in range(1, VERSIONS + 2):
        for slot, item in enumerate(group):
            step = _state(round_ * 1000 + slot)
            weights[slot] = {n: t + 0.01 * step[n] for n, t in weights[slot].items()}
            if round_ > VERSIONS:
                setattr(item, "_merge", lambda _=None: None)  # noqa: B010
            item.publish(weights[slot], 100 * round_, round_)
        for slot, each in enumerate(group):
            adopted = each.adopt(weights[slot]) if round_ <= VERSIONS else None
            weights[slot] = weights[slot] if adopted is None else dict(adopted.weights)


def _count(root: Path, what: str) -> Counter[str]:
    """Count the operations below ``root`` between two marks of a process of its own."""
    argv = [sys.executable, str(Path(__file__).resolve()), what, str(root)]
    if not shutil.which("strace"):
        return Counter(json.loads(subprocess.run(argv, check=True, capture_output=True).stdout))
    with tempfile.NamedTemporaryFile(suffix=".strace") as log:
        calls = "%file,getdents64,fsync,fdatasync"
        traced = ["strace", "-f", "-y", "-qq", "-s", "512", "-e", f"trace={calls}", "-o", log.name]
        subprocess.run([*traced, *argv], check=True, stdout=subprocess.DEVNULL)
        return _read_trace(Path(log.name).read_text(errors="replace"), str(root))


def _read_trace(text: str, root: str) -> Counter[str]:
    found: Counter[str] = Counter()
    counting = False
    for line in text.splitlines():
        if f"{root}/MARK" in line:
            counting = not counting
            continue
        call = _CALL.match(line)
        if not counting or call is None or root not in line or ', "", ' in line:
            continue  # an empty path: fstat of an open file, no round trip
        if kind := KINDS.get(call.group(1)):
            found[kind] += 1
    return found


def _child(what: str, root: Path) -> int:
    exchange = _exchange(root, 0)
    work: Callable[[], Any] = partial(exchange._merge, 0.0)  # noqa: SLF001
    if what == "look":
        own = dict(exchange.join_fleet(lambda: _state(0), None).weights)
        for _ in range(2):
            exchange._merge(0.0)  # noqa: SLF001 - one merge takes 48 contributions at most
            exchange.adopt(own)
            time.sleep(STILL_S)
        work = partial(exchange.adopt, own)
    found: Counter[str] = Counter()
    counting: list[bool] = []
    if not shutil.which("strace"):

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if counting and event in AUDITED and str(root) in str(args[0]):
                found[AUDITED[event]] += 1

        sys.addaudithook(hook)
    (root / "MARK").exists()
    counting.append(True)
    work()
    counting.clear()
    (root / "MARK").exists()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(_child(sys.argv[1], Path(sys.argv[2])))
    print(json.dumps(measure(tuple(map(int, sys.argv[1:])) or PEERS), indent=1))
