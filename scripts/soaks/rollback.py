"""A person rolls back at random times while four jobs merge and two laptops contribute.

Real processes and the product's own exchange on a real folder. Every step of a peer adds to the
weight numbered like its base version, so a version's state shows the versions on which its progress
was made. Checked by the commit records and the states: versions chain, a rollback has the state it
names, and no progress made on a reverted version is in a later one.
"""

import contextlib
import multiprocessing
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from Daddy.core.clock import SystemClock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.name_validation import new_incarnation
from Daddy.core.process_pool import interrupts_blocked
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning.device import limit_threads
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.rollback import roll_back
from Daddy.weights.store.weight_records import Input, Version, is_reverted
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange
from scripts.soaks.weights_fleet import small
from scripts.version_history import read_history

JOBS, LAPTOPS = 4, 2
WIDTH = 8_192
"""Weights, and versions that a soak can tell apart."""

LONGEST_PAUSE_S = 0.6
SETTLE_S = 3.0
CLOCK = SystemClock()


class Silent:
    """An event writer that writes nothing."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Write nothing."""


def run(times: int, seed: int) -> dict[str, Any]:
    """Roll back ``times`` times, at times that follow from ``seed``; return the figures."""
    chance = random.Random(seed)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="daddy-rollback-") as folder:
        paths, stop = SharedPaths(Path(folder) / "shared"), spawn.Event()
        peers = [spawn.Process(target=_job, args=(paths, k, seed, stop)) for k in range(JOBS)]
        peers += [
            spawn.Process(target=_laptop, args=(paths, k, seed, stop)) for k in range(LAPTOPS)
        ]
        with interrupts_blocked():
            for peer in peers:
                peer.start()
        try:
            seconds = _go_back(Store(paths), times, chance, peers)
            time.sleep(SETTLE_S)
        finally:
            stop.set()
            for peer in peers:
                peer.join(60.0)
                peer.kill()
        broken = [f"a peer ended with {peer.exitcode}" for peer in peers if peer.exitcode]
        figures = judge(paths)
        return {
            "rollbacks": len(seconds),
            "seconds_median": round(sorted(seconds)[len(seconds) // 2], 3),
            "seconds_longest": round(max(seconds), 3),
            **figures,
            "broken": [*broken, *figures["broken"]],
        }


# -- peers


def _job(paths: SharedPaths, number: int, seed: int, stop: Event) -> None:
    """Learn, offer, merge and adopt; now and then a successor continues from the last note."""
    limit_threads(1)
    chance = random.Random(seed * 1_000 + number)
    settings = ExchangeSettings(run="soak", workload="none", period_s=0.2)
    steps, note, own = 0, None, small(*[0.0] * WIDTH)
    for term in count(1):
        exchange = SharedExchange(
            paths, f"slot-{number}", new_incarnation(), settings, CLOCK, Silent(), term=term
        )
        begun = exchange.join_fleet(partial(dict, own), note, 100 * steps, steps)
        own, version = dict(begun.weights), begun.version
        for _ in range(chance.randint(20, 200)):
            own["w"][version] += 1.0
            steps += 1
            exchange.publish(own, 100 * steps, steps)
            stop.wait(chance.uniform(0.05, 0.4))
            if (adopted := exchange.adopt(own, 100 * steps, steps)) is not None:
                own, version = dict(adopted.weights), adopted.version
            if stop.is_set():
                return
        note = exchange.resume_state()


def _laptop(paths: SharedPaths, number: int, seed: int, stop: Event) -> None:
    """Pull, learn and push; links and renames replace the network."""
    limit_threads(1)
    chance, name = random.Random(seed * 2_000 + number), f"laptop-{number}"
    local, box = paths.root.parent / name, paths.inbox / name
    local.mkdir()
    for folder in ("wan", "receipts"):
        (local / folder).symlink_to(paths.root / folder)
    while not (paths.wan / "HEAD.json").exists() and not stop.wait(0.1):
        pass
    box.mkdir(parents=True)
    exchange = LaptopExchange(local, name, new_incarnation(), CLOCK, min_seconds=0)
    begun = exchange.join_fleet(lambda: small(*[0.0] * WIDTH), None)
    own, version = dict(begun.weights), begun.version
    for step in count(1):
        own["w"][version] += 1.0
        exchange.publish(own, 100 * step, step)
        for ending in ("*.st", "*.json"):
            for path in sorted((local / "outbox" / name).glob(ending)):
                path.rename(box / path.name)
        if stop.wait(chance.uniform(0.1, 0.6)):
            return
        with contextlib.suppress(DaddyError, OSError):
            if (adopted := exchange.adopt(own)) is not None:
                own, version = dict(adopted.weights), adopted.version


# -- the person


def _go_back(
    store: Store, times: int, chance: random.Random, peers: Sequence[SpawnProcess]
) -> list[float]:
    """Return the seconds that each rollback took; fewer than ``times`` if a peer ended."""
    seconds = list[float]()
    while len(seconds) < times:
        if not all(peer.is_alive() for peer in peers):
            break
        time.sleep(chance.uniform(0.0, LONGEST_PAUSE_S))
        newest = store.newest()
        if newest is None or not (targets := _targets(store, newest)):
            continue
        began = time.monotonic()
        with contextlib.suppress(WeightsError):  # it went away meanwhile: another is tried
            roll_back(store, chance.choice(targets), f"rollback {len(seconds)}", CLOCK)
            seconds.append(time.monotonic() - began)
    return seconds


def _targets(store: Store, newest: int) -> list[int]:
    """Return versions whose states exist and were not reverted."""
    reverted = store.version(newest).reverted
    return [
        record.version
        for record in store.records(newest - 40, newest - 1)
        if not is_reverted(record.version, reverted) and store.paths.blob(record.state).exists()
    ]


# -- the verdict


def judge(paths: SharedPaths) -> dict[str, Any]:
    """Return counts, and violated rules under ``broken``."""
    history, store = read_history(paths), Store(paths)
    newest = store.newest()
    assert newest is not None
    broken = [] if history.chained and len(history.versions) == newest + 1 else [
        f"versions do not chain: {history.flaw or len(history.versions)}"]  # fmt: skip
    gone, ranges = set[tuple[str, str, int]](), list[tuple[int, int]]()
    for version in history.versions:
        for revert in version.reverts:
            broken += _judge_rollback(version, history.versions[revert.good])
            ranges.append((revert.first, revert.last))
            taken = history.versions[revert.first : revert.last + 1]
            gone |= {_key(each) for kept in taken for each in kept.inputs}
        for merged in version.inputs:
            if _key(merged) in gone or is_reverted(merged.base_version, ranges):
                broken.append(f"v{version.version} holds {_key(merged)}, which was taken back")
    inputs = [entry for version in history.versions for entry in version.inputs]
    states = [item for item in history.versions if store.paths.blob(item.state).exists()]
    for version in states:
        broken += _judge_state(store, version, history.versions)
    return {
        "versions": len(history.versions),
        "contributions": len(inputs),
        "of_laptops": sum(element.peer.startswith("laptop") for element in inputs),
        "refused": sum(len(member.refused) for member in history.versions),
        "taken_back": sum(last - first + 1 for first, last in ranges),
        "states_read": len(states),
        "broken": broken,
    }


def _key(merged: Input) -> tuple[str, str, int]:
    return (merged.peer, merged.incarnation, merged.sequence)


def _judge_rollback(version: Version, good: Version) -> list[str]:
    if (version.state, version.base) == (good.state, good.version):
        return []
    return [f"v{version.version} does not have the state of v{good.version}"]


def _judge_state(store: Store, version: Version, versions: tuple[Version, ...]) -> list[str]:
    """Return progress in the state of ``version`` that was made on reverted versions."""
    weights = decode(store.read_blob(version.state))["w"]
    before = versions[: version.version + 1]
    ranges = [(revert.first, revert.last) for kept in before for revert in kept.reverts]
    held = weights.nonzero().flatten().tolist()
    return [
        f"v{version.version} holds progress made on v{made_on}, which was taken back"
        for made_on in held
        if is_reverted(made_on, ranges)
    ]
