"""Entry: restores files that a purge deleted from a run's weights and archive.

`python -m Daddy.weights.restore [RUN] [--from COPY …] [--dry-run]`. Without `--from` it takes the
mirror that the controller kept in the home directory. It does nothing while any process may write
to the run.

The run continues from the newest state that verifies anywhere, with the totals of the newest
readable commit record; older records stay lost. Good files are not overwritten; damaged ones are
set aside. A frozen merger may later commit the next number, and a laptop may hold a version that no
file here names: a run that lost its newest files therefore continues at a number at least ten
thousand higher. A killed restore can be repeated. Tests kill it at C1 to C5 of each file, R1 before
the new record, R2 between record and head, R3 after the head.
"""

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

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode, WeightsError
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
from Daddy.weights.locate_shared_weights import add_config_flags
from Daddy.weights.merge.step_counts import total_of
from Daddy.weights.store import heartbeats
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.weight_records import LaptopHead, RunCard, Version, is_reverted
from Daddy.weights.store.weight_store import Store, version_numbers

LEAP = 10_000
"""Least gap between the highest known number and the next: at a version every five seconds, half a
day of unknown versions. Eight digits are room for thousands of restores."""

HIGHEST = 99_000_000
"""Numbers above it are ignored as forged: file names have eight digits."""

DEPTH = 64
"""Newest records that are searched for a state that verifies."""

UNTOLD = "untold"
"""Contributor of steps that a laptop's copy counts without naming peers."""


# -- sources


@dataclass(frozen=True, slots=True)
class RestoreCandidate:
    """A version whose state verifies below ``root``; ``exact``, or rounded to bfloat16."""

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
    """A run, a mirror, or a laptop's folder, which has only shared weights. File names are not
    trusted: a state counts when its bytes have the hash in its record or head, a record when it can
    be read and belongs to the run.
    """

    run: RunPaths
    shared: SharedPaths

    def laptop_heads(self) -> list[LaptopHead]:
        """Return the readable heads of a pulled folder, the newest first."""
        heads = []
        for name in ("HEAD.json", PREVIOUS):
            with contextlib.suppress(DaddyError, OSError):
                heads.append(read_laptop_head(self.shared.wan / name))
        return [frame for frame in heads if frame is not None]

    def run_card(self) -> RunCard | None:
        """Return ``RUN.json``, or a card made from a laptop's head; None without either."""
        with contextlib.suppress(DaddyError, OSError):
            return Store(self.shared).card()
        if not (heads := self.laptop_heads()):
            return None
        head = heads[0]
        return RunCard(head.run, head.run_id, head.workload, head.schema, head.assists)

    def newest_record(self, run_id: str) -> Version | None:
        """Return the newest readable commit record of the run ``run_id``, or None."""
        for number in reversed(version_numbers(self.shared)):
            with contextlib.suppress(DaddyError, OSError):
                record = Store(self.shared).version(number)
                if record.run_id == run_id:
                    return record
        return None

    def find_candidates(
        self, card: RunCard, reverted: Sequence[tuple[int, int]]
    ) -> Iterator[RestoreCandidate]:
        """Yield the newest version with an exact state, and the newest rounded one."""
        store = Store(self.shared)
        if record := newest_verified_version(store, DEPTH, reverted):
            read = partial(store.read_blob, record.state)
            steps, root = record.fleet_steps, self.run.root
            yield RestoreCandidate(record.version, True, steps, root, read, record.state)
        with contextlib.suppress(DaddyError, OSError):
            pulled = newest_verified(self.shared.root)
            if pulled and not is_reverted(pulled.version, reverted):
                read = partial(_widened, pulled.data, card.schema)
                steps = pulled.head.fleet_steps
                yield RestoreCandidate(pulled.version, False, steps, self.run.root, read)

    def highest(self) -> int:
        """Return the highest version that any file of this source names; -1 for none."""
        store = Store(self.shared)
        versions = [-1, *version_numbers(self.shared)]
        versions += [head.version for head in self.laptop_heads()]
        beats = heartbeats.read_heartbeats(store)
        versions += [beat.version for beat in beats if beat.uid is None]
        versions += [head.version] if (head := store.head()) else []
        digits = (path.name.split("-")[1] for path in self.shared.wan.glob("*-*-*"))
        versions += [int(text) for text in digits if text.isdecimal()]
        return max(number for number in versions if number <= HIGHEST)


def _widened(data: bytes, schema: str) -> bytes:
    from Daddy.weights.encoding.state_codec import decode, encode

    return encode(decode(data, schema))


def open_source(path: Path) -> RestoreSource:
    """Return the mirror, laptop's folder or run at ``path``. Raise WeightsError for none."""
    run = RunPaths(path)
    for shared in (SharedPaths(run.shared_weights), SharedPaths(path)):
        if shared.merged.is_dir() or shared.wan.is_dir():
            return RestoreSource(run, shared)
    raise WeightsError(
        f"{path} holds nothing to restore from",
        "name a copy below ~/.local/share/daddy/mirrors, a folder that sync_weights.sh pulled "
        "into, or a copy of the run",
    )


def _one_run(sources: Sequence[RestoreSource]) -> RunCard:
    """Return the run card that all sources share. Raise WeightsError for several runs, or none."""
    cards = [(source.run.root, card) for source in sources if (card := source.run_card())]
    if len({(card.run_id, card.schema) for _, card in cards}) == 1:
        return cards[0][1]
    runs = [f"{root} is of run {card.run!r} {card.run_id[:8]}" for root, card in cards]
    raise WeightsError(
        "; ".join(runs) or f"no file names the run that {sources[0].run.root} was",
        "name sources of one run; if a new run was started in this folder, move it away first",
    )


# -- the plan


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """All steps of a restore of ``target``. ``parent``: the newest commit record in any source,
    which will be copied to the target; its totals are kept. ``number``: the new version that
    continues from ``best``; None: no new version.
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

    def describe(self) -> list[str]:
        """Return the plan in words, one line per step."""
        counts = Counter(map(file_kind, self.files))
        steps = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items()]
        if self.number is None:
            return [*steps, f"the run goes on from v{self.best.version}, the newest in any record"]
        rounded = "" if self.best.exact else ", rounded to bfloat16: a laptop's copy"
        onward = f"v{self.number} goes on from v{self.best.version} of {self.best.root}{rounded}"
        return [*steps, onward, "the number leaps, so that no lost version's number is used again"]


def plan_restore(target: RestoreSource, sources: Sequence[RestoreSource]) -> RestorePlan:
    """Return the missing files and the version to continue from. Raise WeightsError when no state
    verifies anywhere, or the folders are of different runs.
    """
    all_of = (target, *sources)
    card = _one_run(all_of)
    records = [source.newest_record(card.run_id) for source in all_of]
    heads = [top for source in all_of for top in source.laptop_heads()]
    readable = [record for record in records if record is not None]
    ranges = [record.reverted for record in readable] + [top.reverted for top in heads]
    reverted = [*{pair for pairs in ranges for pair in pairs}]
    candidates = [entry for source in all_of for entry in source.find_candidates(card, reverted)]
    if not candidates:
        names = ", ".join(str(source.run.root) for source in all_of)
        raise WeightsError(
            f"no version's state has the right hash in {names}", "name another source with --from"
        )
    ours, parent = records[0], max(readable, key=lambda record: record.version, default=None)
    highest, head = max(source.highest() for source in all_of), target.shared.head.exists()
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
    """Return the best candidate and the number of a new version that continues from it, or None if
    the newest version is not lost. ``newest``: the highest commit record of the run's own folder;
    ``highest``: the highest number that any file names; ``head``: the run's ``HEAD.json`` exists.
    """
    best = max(candidates, key=lambda candidate: (candidate.version, candidate.exact))
    whole = head and best.exact and best.version == newest == highest
    return best, None if whole else (highest // LEAP + 2) * LEAP


# -- carrying it out


def restore_run(plan: RestorePlan, clock: Clock, hook: Hook = no_hook) -> int:
    """Carry out the plan; return the version from which the run continues. The merge lease is ended
    and taken over: the caller has checked that no writer lives. Raise WeightsError when another
    process merges or restores meanwhile; OSError when the disk refuses.
    """
    store = Store(plan.target.shared, hook)
    paths = store.paths
    paths.inbox.mkdir(parents=True, exist_ok=True)
    view = read_lease(paths.lease)
    if view is not None and view.ended is None:
        end_term(paths.lease, view.term, "its holder is gone: a restore goes on")
    lease = Lease.acquire(paths.lease, {"merger": "restore"})
    if lease is None:
        raise WeightsError(f"another process merges or restores {paths.root}", "try again later")
    try:
        for path, read in plan.files.items():
            if path.exists():  # damaged: it does not verify
                store.set_aside(path, "damaged")
            write_copy(path, read, store.writer)
        return _write_next(store, plan, clock)
    finally:
        lease.release("restored")


def _write_next(store: Store, plan: RestorePlan, clock: Clock) -> int:
    """Commit the plan's new version, if any; point ``HEAD.json`` to it; return its number."""
    number = plan.best.version if plan.number is None else plan.number
    if plan.number is not None:
        record = _next_version(store, plan, number, round(clock.now(), 3))
        store.writer.hook("R1")
        store.paths.head.unlink(missing_ok=True)  # it names a lower number
        if not store.commit(record):
            raise WeightsError(f"another process wrote v{number}", "run the restore again")
        store.writer.hook("R2")
    store.write_head(number)
    store.writer.hook("R3")
    return number


def _next_version(store: Store, plan: RestorePlan, number: int, ts: float) -> Version:
    """Return the commit record under which the run continues. It keeps the newest record's totals
    and judged sequences, so that no contribution counts twice.
    """
    best, card, data = plan.best, plan.card, plan.best.read()
    blank = Version(card.run_id, card.schema, "", 0, "delta", "", 0.0, assists=card.assists)
    newest = plan.parent or blank
    base = min(best.version, newest.version)
    totals = Counter(newest.contributors)
    totals[UNTOLD] += max(0, best.fleet_steps - total_of(totals))
    return newest.next_record(
        version=number,
        parent="" if plan.parent is None else store.record_hash(plan.parent.version),
        base=base if store.paths.version(base).exists() else number,
        state=store.put_blob(data, "state"),
        size=len(data),
        merger=f"restore of v{best.version}",
        ts=ts,
        contributors={peer: steps for peer, steps in totals.items() if steps or peer != UNTOLD},
        fleet_steps=total_of(totals),
        restored=True,
    )


# -- writers


def _file_system_now(folders: Sequence[Path]) -> float:
    """Return the wall time in seconds of the folders' file systems, which also date heartbeats;
    this host's clock if no folder exists. Raise OSError if a folder takes no file.
    """
    times = []
    for folder in filter(Path.is_dir, folders):
        with TemporaryFile(dir=folder) as probe:
            times.append(os.fstat(probe.fileno()).st_mtime)
    return min(times, default=SystemClock().now())


def active_writers(run: RunPaths, shared: SharedPaths, now: float) -> list[str]:
    """Return, in words, processes that may still write to the run: controller, learners, mergers.
    The age of a heartbeat's file counts, since one reading cannot show that a counter stands still.
    """
    writers = []
    leases = {f"slot {path.parent.name}": path for path in sorted(run.slots.glob("*/lease"))}
    for name, folder in {"the controller": run.controller_lease, **leases}.items():
        view, age = read_lease(folder), _age(folder / "beat.json", now)
        if view is not None and view.ended is None:
            alive = is_holder_alive(view.holder)
            pid, host = view.holder.get("pid"), view.holder.get("host")
            if alive or (alive is None and age < SILENCE_S):
                writers.append(f"{name}: process {pid} on {host}")
    for heartbeat in heartbeats.read_heartbeats(Store(shared)):
        age = _age(heartbeat.heartbeat, now)
        if not heartbeat.left and age < SILENCE_S:
            writers.append(f"{heartbeat.peer} beat {age:.0f} s ago in {shared.root}")
    return writers


def _age(path: Path, now: float) -> float:
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return float("inf")


# -- the command


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="restore",
        description="Restore files that a purge deleted from a run, and let the run continue.",
    )
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's folder (default: the config's)"
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=Path,
        metavar="COPY",
        help="mirror, folder that a laptop pulled, or copy of the run; may be repeated "
        "(default: the mirror in the home folder)",
    )
    add_config_flags(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, write nothing")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 no source or run active, 9 files."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    from Daddy.core.load_config import load_config, run_paths, shared_paths

    folder = args.run_dir if args.run is None else str(args.run.expanduser().absolute())
    config = load_config(args.config, {"run_dir": folder}, os.environ, args.site)
    target = RestoreSource(run_paths(config), shared_paths(config))
    sources = [open_source(path.expanduser().absolute()) for path in args.sources or ()]
    plan = plan_restore(target, sources or _copy_at_home(config, target))
    if plan.is_idle:
        print(f"{target.shared.root} lacks nothing: the run goes on from v{plan.best.version}")
        return ExitCode.DONE
    now = _file_system_now(() if args.dry_run else (target.run.root, target.shared.root))
    if writers := active_writers(target.run, target.shared, now):
        raise WeightsError(
            f"a process may still write to {target.shared.root}: {'; '.join(writers)}",
            "type `run_controller stop`, wait until the jobs have ended, then run this again",
        )
    number = None if args.dry_run else restore_run(plan, SystemClock())
    print(f"{'would put' if args.dry_run else 'put'} back into {target.run.root}:")
    print("\n".join(f"  {line}" for line in plan.describe()))
    if number is not None:
        print(f"the run goes on from v{number}: start it again")
    return ExitCode.DONE


def _copy_at_home(config: Config, target: RestoreSource) -> list[RestoreSource]:
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    copy = newest_copy(folder, target.run, target.run_card())
    if copy is None and not target.shared.merged.is_dir():
        raise WeightsError(
            f"{target.shared.root} holds no version, {folder} no mirror of it",
            "name a copy with --from, such as a folder that a laptop pulled",
        )
    return [open_source(copy)] if copy else []


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
