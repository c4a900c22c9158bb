"""Entry: put back what a purge took from a run's weights and archive, and let it go on.

`python -m Daddy.weights.restore [RUN] [--from COPY …] [--dry-run]`. Without `--from` it takes the
copy that the controller kept in the home directory. Nothing is done while anybody may write there.

The run goes on from the newest state that verifies anywhere, with the totals of the newest readable
commit record; older records stay lost. Nothing that is good is overwritten,
only what does not verify is set aside. A merger that was frozen may commit the next number any day,
a laptop may stand on a version that nothing here names: a run that lost anything at its top leaps
to a number ten thousand higher. Killed anywhere, it can be repeated. Kill points: C1 to C5 of each
file, R1 before the new record, R2 between it and the head, R3 after the head.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, ExitCode, WeightsError, run_entry
from Daddy.core.lease import Lease, end_term, is_holder_alive, read_lease
from Daddy.core.run_paths import RunPaths, mirrors_folder
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.backup import (
    Files,
    Read,
    archive_states,
    file_kind,
    newest_copy,
    newest_verified_version,
    state_files,
    write_copy,
)
from Daddy.weights.exchange_settings import SILENCE_S
from Daddy.weights.laptop.pulled_folder import PREVIOUS, newest_verified, read_laptop_head
from Daddy.weights.locate_weights import add_config_arguments
from Daddy.weights.store import heartbeats
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.weight_records import LaptopHead, RunCard, Version, is_reverted
from Daddy.weights.store.weight_store import Store, version_numbers

LEAP = 10_000
"""Numbers between what was known and what follows, at least: at a version each five seconds, half a
day that nobody told of. Eight digits are room for thousands of restores."""

HIGHEST = 99_000_000
"""Numbers beyond it no honest file names: their names have eight digits."""

DEPTH = 64
"""Records that are looked at for a state that verifies, the newest first."""

UNTOLD = "untold"
"""Contributor of steps that only a laptop's copy counts, without their peers."""


# -- sources


@dataclass(frozen=True, slots=True)
class RestoreCandidate:
    """A version whose state verifies below ``root``: exact, or rounded to bfloat16."""

    version: int
    exact: bool = True
    fleet_steps: int = 0
    root: Path = Path()
    read: Read = bytes
    """Reads the state as float32."""
    state: str = ""
    """Hash of an exact state."""


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """A run, a copy of one, or a laptop's folder, which has nothing beside its shared weights.

    Names prove nothing: a state counts when its bytes have the hash that its record or head
    promises, a record when it reads as one of the run.
    """

    run: RunPaths
    shared: SharedPaths

    def frames(self) -> list[LaptopHead]:
        """The readable heads of a pulled folder, the newest first."""
        found = []
        for name in ("HEAD.json", PREVIOUS):
            with contextlib.suppress(DaddyError, OSError):
                found.append(read_laptop_head(self.shared.wan / name))
        return [frame for frame in found if frame is not None]

    def card(self) -> RunCard | None:
        """The run card, or as much as a laptop's head tells; None where nothing does."""
        with contextlib.suppress(DaddyError, OSError):
            return Store(self.shared).card()
        cards = [RunCard(f.run, f.run_id, f.workload, f.schema, f.assists) for f in self.frames()]
        return cards[0] if cards else None

    def newest_record(self, run_id: str) -> Version | None:
        """The newest readable commit record of this run."""
        for number in reversed(version_numbers(self.shared)):
            with contextlib.suppress(DaddyError, OSError):
                record = Store(self.shared).version(number)
                if record.run_id == run_id:
                    return record
        return None

    def candidates(
        self, card: RunCard, reverted: Sequence[tuple[int, int]]
    ) -> Iterator[RestoreCandidate]:
        """The newest version whose exact state is here, and the newest rounded one, if any."""
        store = Store(self.shared)
        if record := newest_verified_version(store, DEPTH, reverted):
            read = partial(store.read_blob, record.state)
            steps, root = record.fleet_steps, self.run.root
            yield RestoreCandidate(record.version, True, steps, root, read, record.state)
        with contextlib.suppress(DaddyError, OSError):
            found = newest_verified(self.shared.root)
            if found and not is_reverted(found.version, reverted):
                read = partial(_widened, found.data, card.schema)
                steps = found.frame.fleet_steps
                yield RestoreCandidate(found.version, False, steps, self.run.root, read)

    def highest(self) -> int:
        """The highest version that anything here names; -1: none."""
        store = Store(self.shared)
        named = [-1, *version_numbers(self.shared), *(frame.version for frame in self.frames())]
        named += [pulse.version for pulse in heartbeats.read_heartbeats(store) if pulse.uid is None]
        named += [head.version] if (head := store.head()) else []
        digits = (path.name.split("-")[1] for path in self.shared.wan.glob("*-*-*"))
        named += [int(text) for text in digits if text.isdecimal()]
        return max(number for number in named if number <= HIGHEST)


def _widened(data: bytes, schema: str) -> bytes:
    from Daddy.weights.encoding.state_codec import decode, encode

    return encode(decode(data, schema))


def open_source(path: Path) -> RestoreSource:
    """The copy, laptop's folder or run at ``path``; WeightsError where it is none of them."""
    run = RunPaths(path)
    for shared in (SharedPaths(run.shared_weights), SharedPaths(path)):
        if shared.merged.is_dir() or shared.wan.is_dir():
            return RestoreSource(run, shared)
    raise WeightsError(
        f"{path} holds nothing to restore from",
        "name a copy below ~/.local/share/daddy/mirrors, a folder that sync_weights.sh pulled "
        "into, or a copy of the run",
    )


def _one_run(everywhere: Sequence[RestoreSource]) -> RunCard:
    """The card of the run that all folders speak of; WeightsError: several runs, or none."""
    cards = [(source.run.root, card) for source in everywhere if (card := source.card())]
    if len({(card.run_id, card.schema) for _, card in cards}) == 1:
        return cards[0][1]
    told = [f"{root} is of run {card.run!r} {card.run_id[:8]}" for root, card in cards]
    raise WeightsError(
        "; ".join(told) or f"nothing says which run {everywhere[0].run.root} was",
        "name sources of one run; a run that began anew in this folder is moved away first",
    )


# -- the plan


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Everything that a restore of ``target`` would do.

    ``parent``: the newest commit record anywhere, which is the target's then; its totals go on.
    ``number``: the version to go on as from ``best``; None: its own.
    """

    target: RestoreSource
    card: RunCard
    files: Files
    parent: Version | None
    best: RestoreCandidate
    number: int | None

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to do."""
        return not self.files and self.number is None

    def lines(self) -> list[str]:
        """The plan in words."""
        counts = Counter(map(file_kind, self.files))
        found = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items()]
        if self.number is None:
            return [*found, f"v{self.best.version} is the newest that anything names: it stays"]
        rounded = "" if self.best.exact else ", rounded to bfloat16: a laptop's copy"
        onward = f"v{self.number} goes on from v{self.best.version} of {self.best.root}{rounded}"
        return [*found, onward, "numbers leap, so that no lost version's number is used again"]


def plan_restore(target: RestoreSource, sources: Sequence[RestoreSource]) -> RestorePlan:
    """Missing files and the version to follow.

    WeightsError: nothing verifies anywhere, or the folders speak of different runs.
    """
    everywhere = (target, *sources)
    card = _one_run(everywhere)
    records = [source.newest_record(card.run_id) for source in everywhere]
    frames = [frame for source in everywhere for frame in source.frames()]
    readable = [record for record in records if record is not None]
    told = [record.reverted for record in readable] + [frame.reverted for frame in frames]
    reverted = [*{pair for pairs in told for pair in pairs}]
    candidates = [one for source in everywhere for one in source.candidates(card, reverted)]
    if not candidates:
        asked = ", ".join(str(source.run.root) for source in everywhere)
        raise WeightsError(
            f"no state verifies, neither here nor in a source: {asked}",
            "name another source with --from",
        )
    ours, parent = records[0], max(readable, key=lambda record: record.version, default=None)
    highest, head = max(source.highest() for source in everywhere), target.shared.head.exists()
    newest = None if ours is None else ours.version
    best, number = choose_version(newest, highest, candidates, head=head)
    files: Files = {target.shared.run: card.to_json_bytes}
    for source in reversed(sources):
        files |= state_files(target.run, archive_states(source.run))
        if source.run.config.is_file() and not target.run.releases.exists():
            files[target.run.config] = source.run.config.read_bytes
    files = {path: read for path, read in files.items() if not path.exists()}
    if number is None and best.root != target.run.root:
        files[target.shared.blob(best.state)] = best.read
    if parent is not None and parent.version != newest:
        files[target.shared.version(parent.version)] = parent.to_json_bytes
    return RestorePlan(target, card, files, parent, best, number)


def choose_version(
    newest: int | None, highest: int, candidates: Iterable[RestoreCandidate], *, head: bool
) -> tuple[RestoreCandidate, int | None]:
    """The version to go on from, and the number to go on as; None: nothing at the top is lost.

    ``newest``: the highest commit record of the run's own folder; ``highest``: the highest number
    that anything names, here or in a source; ``head``: HEAD.json is there.
    """
    best = max(candidates, key=lambda candidate: (candidate.version, candidate.exact))
    whole = head and best.exact and best.version == newest == highest
    return best, None if whole else (highest // LEAP + 2) * LEAP


# -- carrying it out


def restore_run(plan: RestorePlan, clock: Clock, hook: Hook = no_hook) -> int:
    """Do what the plan says; the version that the run goes on from.

    The merge lease is taken from a holder that is gone: the caller has looked for writers.
    WeightsError when another process merges or restores here meanwhile; OSError of the disk.
    """
    store = Store(plan.target.shared, hook)
    paths = store.paths
    paths.inbox.mkdir(parents=True, exist_ok=True)
    view = read_lease(paths.lease)
    if view is not None and view.ended is None:
        end_term(paths.lease, view.term, "its holder is gone: a restore goes on")
    lease = Lease.acquire(paths.lease, {"merger": "restore"})
    if lease is None:
        raise WeightsError(f"somebody merges or restores in {paths.root}", "look again")
    try:
        for path, read in plan.files.items():
            if path.exists():  # it does not verify
                store.set_aside(path, "damaged")
            write_copy(path, read, store.writer)
        return _go_on(store, plan, clock)
    finally:
        lease.release("restored")


def _go_on(store: Store, plan: RestorePlan, clock: Clock) -> int:
    """The head of what is there, or the next version under a number that is nobody's."""
    number = plan.best.version if plan.number is None else plan.number
    if plan.number is not None:
        record = _next_version(store, plan, number, round(clock.now(), 3))
        store.writer.hook("R1")
        store.paths.head.unlink(missing_ok=True)  # a hint at a lower number would hide the new one
        if not store.commit(record):
            raise WeightsError(f"somebody else wrote v{number}", "look at it, and say it again")
        store.writer.hook("R2")
    store.write_head(number)
    store.writer.hook("R3")
    return number


def _next_version(store: Store, plan: RestorePlan, number: int, ts: float) -> Version:
    """The commit record under which the run goes on.

    The newest record's totals and what it judged go on, so that nothing counts twice.
    """
    best, card, data = plan.best, plan.card, plan.best.read()
    blank = Version(card.run_id, card.schema, "", 0, "delta", "", 0.0, assists=card.assists)
    known = plan.parent or blank
    base = min(best.version, known.version)
    totals = Counter(known.contributors)
    totals[UNTOLD] += max(0, best.fleet_steps - totals.total())
    return known.next_record(
        version=number,
        parent="" if plan.parent is None else store.record_hash(plan.parent.version),
        base=base if store.paths.version(base).exists() else number,
        state=store.put_blob(data, "state"),
        size=len(data),
        merger=f"restore of v{best.version}",
        ts=ts,
        contributors={peer: steps for peer, steps in totals.items() if steps or peer != UNTOLD},
        fleet_steps=totals.total(),
        restored=True,
    )


# -- writers


def _now_there(folders: Sequence[Path]) -> float:
    """Wall seconds by the file systems of the folders, whose clocks tell a beat's time.

    By this host's clock where there is no folder. OSError where one takes no file.
    """
    times = []
    for folder in filter(Path.is_dir, folders):
        with TemporaryFile(dir=folder) as probe:
            times.append(os.fstat(probe.fileno()).st_mtime)
    return min(times, default=SystemClock().now())


def active_writers(run: RunPaths, shared: SharedPaths, now: float) -> list[str]:
    """Processes that may still write there, in words: a controller, learners, mergers.

    One look cannot watch a counter stand still: the age of a beat's file counts instead.
    """
    found = []
    leases = {f"slot {path.parent.name}": path for path in sorted(run.slots.glob("*/lease"))}
    for name, folder in {"the controller": run.controller_lease, **leases}.items():
        view, age = read_lease(folder), _age(folder / "beat.json", now)
        if view is not None and view.ended is None:
            alive = is_holder_alive(view.holder)
            pid, host = view.holder.get("pid"), view.holder.get("host")
            if alive or (alive is None and age < SILENCE_S):
                found.append(f"{name}: process {pid} on {host}")
    for pulse in heartbeats.read_heartbeats(Store(shared)):
        age = _age(pulse.heartbeat, now)
        if not pulse.left and age < SILENCE_S:
            found.append(f"{pulse.peer} beat {age:.0f} s ago in {shared.root}")
    return found


def _age(path: Path, now: float) -> float:
    """Seconds since the file was written; infinite where there is none."""
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return float("inf")


# -- the command


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="restore",
        description="Put back what a purge took from a run, and let it go on from there.",
    )
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's folder (the config's)"
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=Path,
        metavar="COPY",
        help="a mirror, a folder that a laptop pulled, a copy of the run; may be repeated "
        "(the mirror in the home folder)",
    )
    add_config_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 nothing verifies, another run, or it is written to, 9."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    from Daddy.core.load_config import load_config, run_paths, shared_paths

    folder = args.run_dir if args.run is None else str(args.run.expanduser().absolute())
    config = load_config(args.config, {"run_dir": folder}, os.environ, args.site)
    target = RestoreSource(run_paths(config), shared_paths(config))
    sources = [open_source(path.expanduser().absolute()) for path in args.sources or ()]
    plan = plan_restore(target, sources or _copy_at_home(config, target))
    if plan.is_idle:
        print(f"{target.shared.root} lacks nothing: {plan.lines()[-1]}")
        return ExitCode.DONE
    now = _now_there(() if args.dry_run else (target.run.root, target.shared.root))
    if found := active_writers(target.run, target.shared, now):
        raise WeightsError(
            f"somebody may still write to {target.shared.root}: {'; '.join(found)}",
            "say `run_controller stop`, wait until the jobs have left, then say it again",
        )
    number = None if args.dry_run else restore_run(plan, SystemClock())
    print(f"{'would put' if args.dry_run else 'put'} back into {target.run.root}:")
    print("\n".join(f"  {line}" for line in plan.lines()))
    if number is not None:
        print(f"the run goes on from v{number}: start it again")
    return ExitCode.DONE


def _copy_at_home(config: Config, target: RestoreSource) -> list[RestoreSource]:
    """The newest copy in the home directory, if there is one."""
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    copy = newest_copy(folder, target.run, target.card())
    if copy is None and not target.shared.merged.is_dir():
        raise WeightsError(
            f"{target.shared.root} is gone and {folder} holds no copy of it",
            "name a copy with --from: a laptop's folder will do",
        )
    return [open_source(copy)] if copy else []


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
