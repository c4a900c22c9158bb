"""Compares the speed of N environments, ours and other libraries', with the emulation limit.

The limit is cores x bare, where bare is the mean rate of simultaneous loops, one per usable core,
that only emulate: a key, 24 frames, one of them drawn. Every round measures each contender for half
a second, and the limit right before and after it. A virtual machine's cores may differ in speed by
half from one second to the next, and by themselves; so the share (`of_limit`) is the sum of all
rates over the sum of the limits around them, and `halves` gives it for the odd and the even rounds
alone: their difference is the noise. The uneven scene plays steps of 1 to 20 times 24 frames
(`_uneven_steps`); there, 24 frames count as one step. Peers play at the best of 8, 16 and 32
environments, found by a trial before the rounds.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import psutil

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.process_pool import interrupts_blocked
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import find_rom
from scripts.benches import _step_parts
from scripts.benches._uneven_steps import MEAN, UnevenEnv
from scripts.benches._vector_before import Before
from scripts.benches._vector_peers import (
    PEERS,
    Bare,
    Contender,
    Ours,
    limit_math_threads,
    make_peer,
    missing,
)

FLAT = True
OPTIONS = {"before": "checkout of another commit, whose vector plays too (default: none)"}
COUNTS = (1, 2, 4, 8, 16, 32)
USUAL = 16
"""Environments in the uneven scene, and of our other ways."""
PEER_COUNTS = (8, 16, 32)
ROUNDS, QUICK_ROUNDS = 40, 2
SECONDS, TRIAL_SECONDS = 0.5, 2.0
SETTLING_S = 0.7
"""Pause after peers and `before`: pufferlib's workers poll for half a second after a step."""
MIB = 1 << 20
METHODS = ("fork", "spawn")
"""Start methods whose memory and start are measured; the second is that of macOS."""
UNEVEN, SPAWNED, BEFORE = "uneven scene", "spawned", "before"
WAYS: dict[str, dict[str, Any]] = {
    "one group": {"groups": 1},
    "three groups": {"groups": 3},  # of 15
    SPAWNED: {"context": "spawn"},
    "pinned": {"pinned": True},
}
"""Other ways to run our vector, and their options."""
MANY = 96
"""Environments whose start is timed: those of the `gpu` profile."""

Round = dict[str, tuple[float, float]]
"""Each contender's rate, and the limit around it, in steps per second."""


def run(quick: bool, before: Path | None = None) -> dict[str, object]:
    """Return steps per second, and their share of cores x bare of the same rounds."""
    limit_math_threads()
    rounds, cores = QUICK_ROUNDS if quick else ROUNDS, usable_cores()
    absent = {peer: text for peer in PEERS if (text := missing(peer))}
    trials = {peer: _try_counts(peer, cores) for peer in PEERS if peer not in absent}
    contenders: dict[str, Contender] = {}
    bare = Bare(cores)
    try:
        for name, make in _makers(cores, trials, before).items():
            contenders[name] = make()
        measured: list[Round] = []
        for number in range(rounds):
            measured.append(_round(bare, contenders, cores))
            print(f"  round {number + 1}/{rounds}, so far {_shares(measured)}", flush=True)
    finally:
        for contender in (bare, *contenders.values()):
            contender.close()
    return {
        **_figures(measured, cores, absent),
        "backend": "processes",
        "python": sys.version.split()[0],
        "peers_by_count": trials,
        "before_backend": getattr(contenders.get(BEFORE), "backend", None),
        "pss_mb_per_env": {method: _marginal_memory(cores, method) for method in METHODS},
        "start_s": {method: _time_start(method) for method in METHODS},
        "step_us": _step_parts.measure(),
        "game": load_rom(find_rom(None)).name,
    }


def _try_counts(peer: str, cores: int) -> dict[str, float]:
    """Return a peer's rate with each of PEER_COUNTS environments, opened one after the other."""
    rates = {}
    for count in PEER_COUNTS:
        contender = make_peer(peer, PokemonRedEnv, count, cores)
        contender.rate(TRIAL_SECONDS / 4)
        rates[str(count)] = round(contender.rate(TRIAL_SECONDS), 1)
        contender.close()
        print(f"  trial  {peer}, {count:<22} {rates[str(count)]:7.0f}/s", flush=True)
    return rates


def _makers(
    cores: int, trials: Mapping[str, Mapping[str, float]], before: Path | None
) -> dict[str, Callable[[], Contender]]:
    """Return a function that makes each contender, by the contender's name."""
    made: dict[str, Callable[[], Contender]] = {
        f"ours, {n}": partial(Ours, PokemonRedEnv, n) for n in COUNTS
    }
    for name, options in WAYS.items():
        count = USUAL - USUAL % options.get("groups", 1)
        made[f"ours, {name}"] = partial(Ours, PokemonRedEnv, count, **options)
    games: dict[str, type[PokemonRedEnv]] = {"": PokemonRedEnv, f", {UNEVEN}": UnevenEnv}
    made[f"ours, {UNEVEN}"] = partial(Ours, UnevenEnv, USUAL)
    for suffix, env in games.items():
        for peer, rates in trials.items():
            best = int(max(rates, key=lambda count: rates[count]))
            made[f"{peer}{suffix}"] = partial(make_peer, peer, env, best, cores)
        if before:
            made[f"{BEFORE}{suffix}"] = partial(Before, before, env, USUAL)
    return made


def _round(bare: Bare, contenders: Mapping[str, Contender], cores: int) -> Round:
    """Measure each contender's rate, and `bare` before and after it."""
    measured: Round = {}
    before = bare.rate(SECONDS / 2)
    for name, contender in contenders.items():
        rate = contender.rate(SECONDS) * (MEAN if UNEVEN in name else 1.0)
        time.sleep(0.0 if name.startswith("ours") else SETTLING_S)
        after = bare.rate(SECONDS / 2)
        measured[name], before = (rate, cores * (before + after) / 2), after
    return measured


def _figures(measured: Sequence[Round], cores: int, absent: Mapping[str, str]) -> dict[str, Any]:
    def rate(name: str) -> float:
        return round(mean(row[name][0] for row in measured), 1)

    present = [name for name in (*PEERS, BEFORE) if name not in absent and name in measured[0]]
    limit = mean(limit for row in measured for _, limit in row.values())
    return {
        "cores": cores,
        "bare": round(limit / cores, 1),
        "limit": round(limit, 1),
        "ours": {str(n): rate(f"ours, {n}") for n in COUNTS},
        "peers": {**absent, **{name: rate(name) for name in present}},
        "uneven": {
            "ours": rate(f"ours, {UNEVEN}"),
            **{peer: rate(f"{peer}, {UNEVEN}") for peer in present},
        },
        "ways": {name: rate(f"ours, {name}") for name in WAYS if f"ours, {name}" in measured[0]},
        "of_limit": _shares(measured),
        "halves": [_shares(measured[::2]), _shares(measured[1::2])],
        "rounds": len(measured),
    }


def _shares(measured: Sequence[Round]) -> dict[str, float]:
    """Return each contender's share of the limit over all of these rounds."""
    rates = {name: [row[name] for row in measured] for name in measured[0]}
    return {
        name: round(sum(rate for rate, _ in pairs) / sum(limit for _, limit in pairs), 3)
        for name, pairs in rates.items()
    }


def _time_start(method: str) -> float:
    """Return the seconds in which 96 environments are made and reset by a start method."""
    clock = SystemClock()
    begin = clock.monotonic()
    contender = Ours(PokemonRedEnv, MANY, context=method)
    seconds = clock.monotonic() - begin
    contender.close()
    return round(seconds, 2)


def _marginal_memory(cores: int, method: str) -> float:
    """Return the MiB that one more environment adds to the existing processes, after some play.

    Compares two numbers of environments with the same number of processes. Shared pages count in
    proportion (PSS).
    """
    few, many = 8 * cores, 24 * cores
    sizes = [_measure_memory(count, method) for count in (few, many)]
    return round((sizes[1] - sizes[0]) / (many - few) / MIB, 2)


def _measure_memory(num_envs: int, method: str) -> int:
    """Return the bytes of a new process and of the env processes that it starts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    driver = context.Process(target=_play_and_report, args=(num_envs, method, theirs))
    with interrupts_blocked():
        driver.start()
    try:
        return int(ours.recv())
    finally:
        driver.terminate()


def _play_and_report(num_envs: int, method: str, pipe: Any) -> None:
    contender = Ours(partial(PokemonRedEnv, episode_steps=200), num_envs, context=method)
    contender.rate(0.2 * num_envs)
    pids = (os.getpid(), *contender.vector.pids)
    memory = [psutil.Process(pid).memory_full_info() for pid in pids]
    pipe.send(sum(getattr(each, "pss", each.uss) for each in memory))  # macOS has no PSS
    contender.close()
