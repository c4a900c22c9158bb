"""Compares the snippets a second of our sandboxes with other ways to run code that nobody has read.

Everybody runs the same snippet (an insertion sort of five lists), ten at a time, and its output is
checked. Each round runs every contender once, one after the other, so that a slower machine slows
all of them; the median of the rounds is reported, and `times` is the median of ours divided by a
peer's in the same round. A peer has an environment of its own below ``runs/bench-peers``.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import psutil

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec

FLAT = True
OPTIONS = {
    "peers": {
        "choices": ("present", "install"),
        "default": "present",
        "help": "install: make the peers' environments first (default: those that are present)",
    }
}
ROUNDS, SECONDS = 5, 4.0
QUICK_ROUNDS, QUICK_SECONDS = 2, 1.0
CONCURRENCY, LIVE, QUICK_LIVE = 10, 200, 20
ENVIRONMENTS = Path("runs/bench-peers")
_DRIVER = Path(__file__).with_name("_sandbox_peers.py")
_PACKAGES = {
    "inspect_ai": "inspect-ai==0.3.285",
    "swe_rex": "swe-rex==1.4.0",
    "smolagents": "smolagents==1.26.0",
}
_ISOLATES = {
    "subprocess": "no",
    "bwrap_once": "yes",
    "inspect_ai": "no (its local sandbox)",
    "swe_rex": "no (its local runtime)",
    "smolagents": "in process (an interpreter of its own)",
}
_LISTS = [[(17 * i * i + 31 * j) % 199 - 99 for j in range(40)] for i in range(1, 6)]
SNIPPET = f"""
import json
def f(x):
    x = list(x)
    for i in range(1, len(x)):
        j = i
        while j and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1
    return x
print(json.dumps([f(x) for x in {_LISTS}]))
"""
EXPECTED = json.dumps([sorted(numbers) for numbers in _LISTS])
MIB = 1 << 20


def run(quick: bool, peers: str = "present") -> dict[str, object]:
    """Return snippets a second of each contender, CPU time, start and memory of ours."""
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    if peers == "install":
        _install()
    absent = {name: text for name in _PACKAGES if (text := _missing(name))}
    names = ["fork_only", *(name for name in _ISOLATES if name not in absent)]
    measured = [_round(names, seconds, f"{n + 1}/{rounds}") for n in range(rounds)]
    live = asyncio.run(_measure_live(QUICK_LIVE if quick else LIVE))

    def middle(name: str, key: str = "per_s") -> float:
        return round(median(each[name][key] for each in measured), 2)

    def compare(name: str) -> dict[str, object]:
        times = median(each["ours"]["per_s"] / each[name]["per_s"] for each in measured)
        return {"per_s": middle(name), "isolates": _ISOLATES[name], "times": round(times, 1)}

    ours = {key: middle("ours", key) for key in ("per_s", "cpu_ms", "start_ms")}
    return {
        "concurrency": CONCURRENCY,
        "ours": {**ours, "mib": live["mib"]},
        "live": live,
        "fork_only": {"per_s": middle("fork_only")},
        "peers": {name: absent.get(name) or compare(name) for name in _ISOLATES},
        "rounds": rounds,
    }


def _round(names: list[str], seconds: float, number: str) -> dict[str, dict[str, float]]:
    """Measure each contender once; print it at once."""
    found = {}
    for name in ("ours", *names):
        ours = name == "ours"
        found[name] = asyncio.run(_measure_ours(seconds)) if ours else _measure_peer(name, seconds)
        print(f"  round {number}  {name:<12} {found[name]['per_s']:7.1f}/s", flush=True)
    return found


def _measure_peer(name: str, seconds: float) -> dict[str, float]:
    job = {"source": SNIPPET, "expected": EXPECTED, "seconds": seconds, "concurrency": CONCURRENCY}
    done = subprocess.run(
        [_python(name), str(_DRIVER), name],
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60 + 20 * seconds,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _measure_ours(seconds: float) -> dict[str, float]:
    """Return the rate of a warm pool, its CPU milliseconds a snippet, and those of a start."""
    began = time.monotonic()
    async with SandboxPool(BubblewrapBackend(), size=CONCURRENCY, warm=CONCURRENCY) as pool:
        started = time.monotonic()
        before, done = _cpu_seconds(), 0

        async def loop() -> None:
            nonlocal done
            while time.monotonic() < started + seconds:
                outcome = await pool.run(Command(python=SNIPPET), Limits())
                if outcome.stdout.decode().strip() != EXPECTED:
                    raise ValueError(f"a sandbox answered {outcome}")
                done += 1

        await asyncio.gather(*(loop() for _ in range(CONCURRENCY)))
        spent, took = _cpu_seconds() - before, time.monotonic() - started
    return {
        "per_s": done / took,
        "cpu_ms": 1000 * spent / done,
        "start_ms": 1000 * (started - began) / CONCURRENCY,
    }


async def _measure_live(count: int) -> dict[str, object]:
    """Return the seconds until `count` sandboxes have each answered once, and the MiB of each."""
    print(f"  {count} live", flush=True)
    began = time.monotonic()
    async with SandboxPool(BubblewrapBackend(), SandboxSpec(), count, warm=count):
        took = time.monotonic() - began
        memory = sum(_pss(process) for process in psutil.Process().children(recursive=True))
    return {"count": count, "seconds": round(took, 2), "mib": round(memory / count / MIB, 2)}


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all below it, ended ones too."""
    total = sum(os.times()[:2])
    for process in psutil.Process().children(recursive=True):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def _python(name: str) -> str:
    return str(ENVIRONMENTS / name / "bin" / "python") if name in _PACKAGES else sys.executable


def _missing(name: str) -> str:
    """Return the text for a peer that has no environment; empty: it has one."""
    there = Path(_python(name)).exists()
    return "" if there else "not installed: ./scripts/bench sandbox --peers install"


def _install() -> None:
    for name, package in _PACKAGES.items():
        if _missing(name):
            print(f"  installing {package} in {ENVIRONMENTS / name}", flush=True)
            folder = ENVIRONMENTS / name
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([_python(name), "-m", "pip", "install", "-q", package], check=True)
