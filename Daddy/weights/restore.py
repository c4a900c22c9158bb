"""Entry: put back what a purge took from a run's weights and archive, and let it go on.

`python -m Daddy.weights.restore [RUN] [--from COPY …] [--dry-run]`. Without `--from` it takes the
copy that the controller kept in the home directory. Nothing is done while anybody may write there.

A restore is looked at first (:func:`survey`), then done (:func:`carry_out`). Nothing that is good
is overwritten: files are created under names that say their content, and only what does not verify
is set aside. Killed anywhere, it can be said again. Kill points: C1 to C5 of each file, R1 before
the new record, R2 between it and the head, R3 after the head.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, WeightsError, run_entry
from Daddy.core.lease import Lease, end_term, holder_alive, read_lease
from Daddy.core.paths import RunPaths, mirrors_folder
from Daddy.core.settings import KEPT_VERSIONS, Config
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.backup import (
    Decision,
    Known,
    Read,
    Source,
    copies_of,
    decide,
    fitting,
    read_state,
    source_at,
    states_of,
    write_copy,
)
from Daddy.weights.settings import SILENCE_S
from Daddy.weights.store import heartbeats
from Daddy.weights.store.durable import Hook, no_hook
from Daddy.weights.store.records import RunCard, Version
from Daddy.weights.store.store import Store
from Daddy.weights.whereabouts import add_settings

UNTOLD = "untold"
"""Contributor of steps that only a laptop's copy counts, without their peers."""


# -- the plan


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that a restore of ``target`` would do.

    ``files``: path to write and the function that reads its bytes, records after their states.
    ``newest``: the highest commit record there is then. ``lines``: the same for people.
    """

    target: Source
    card: RunCard
    files: Mapping[Path, Read]
    newest: int | None
    decision: Decision
    lines: tuple[str, ...]

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to do."""
        return not self.files and self.decision.number is None


def survey(target: Source, sources: Sequence[Source], keep: int) -> Survey:
    """Missing files and the version to follow; ``keep``: versions whose states are put back.

    WeightsError: nothing verifies anywhere, or the folders speak of different runs.
    """
    everywhere = (target, *sources)
    card = _one_run(everywhere)
    ours, theirs = target.records(), _records_of(sources, card)
    reverted = tuple(pair for source in everywhere for pair in source.reverted())
    candidates = [found for source in everywhere for found in source.candidates(reverted)]
    if not candidates:
        asked = ", ".join(str(source.root) for source in everywhere)
        raise WeightsError(
            f"no state verifies, neither here nor in a source: {asked}",
            "name another source with --from",
        )
    missing = fitting(ours, theirs)
    whole = {**ours, **{number: theirs[number] for number in missing}}
    highest = max(source.highest() for source in everywhere)
    head = target.shared.head.exists()
    decision = decide(max(ours, default=None), highest, candidates, head=head)
    newest = [whole[number][0] for number in sorted(whole)[-keep:]]
    files: dict[Path, Read] = {}
    lines: list[str] = []
    _plan_weights(files, lines, target, sources, card, newest)
    for number in missing:
        files[target.shared.version(number)] = partial(bytes, theirs[number][1])
    lines += [_count(len(missing), "commit record")] * bool(missing)
    if target.run is not None:
        _plan_beside(files, lines, target.run, [s.run for s in sources if s.run])
    lines += _told(decision)
    return Survey(target, card, files, max(whole, default=None), decision, tuple(lines))


def _records_of(sources: Sequence[Source], card: RunCard) -> Known:
    found: Known = {}
    for source in sources:
        for number, record in source.records().items():
            if record[0].run_id == card.run_id:
                found.setdefault(number, record)
    return found


def _one_run(everywhere: Sequence[Source]) -> RunCard:
    cards = [(source.root, card) for source in everywhere if (card := source.card()) is not None]
    if not cards:
        raise WeightsError(
            f"nothing says which run {everywhere[0].root} was",
            "name its copy, or a laptop's folder",
        )
    first, ours = cards[0]
    for root, card in cards[1:]:
        if (card.run_id, card.schema) != (ours.run_id, ours.schema):
            raise WeightsError(
                f"{root} is of run {card.run!r} {card.run_id[:8]}, {first} of {ours.run!r} "
                f"{ours.run_id[:8]}",
                "name a source of the same run; a run that began anew in this folder is moved away "
                "first",
            )
    return ours


def _plan_weights(
    files: dict[Path, Read],
    lines: list[str],
    target: Source,
    sources: Sequence[Source],
    card: RunCard,
    records: Sequence[Version],
) -> None:
    """The run card, and the states of ``records`` that a source holds."""
    shared = target.shared
    if not shared.run.exists():
        files[shared.run] = card.to_bytes
        lines.append(f"RUN.json of run {card.run!r}")
    for record in records:
        if not target.holds(record.state):
            for source in [one for one in sources if one.holds(record.state)][:1]:
                files[shared.blob(record.state)] = partial(
                    Store(source.shared).get_blob, record.state
                )
                lines.append(f"the state of v{record.version} from {source.root}")


def _plan_beside(
    files: dict[Path, Read], lines: list[str], run: RunPaths, copies: Sequence[RunPaths]
) -> None:
    """States of the archive; the configuration, where not even the releases are left."""
    moments: dict[Path, Read] = {}
    for path, _ in (state for copy in copies for state in states_of(copy).values()):
        there = run.archive / path.parent.name / path.name
        if not there.exists():
            moments.setdefault(there, partial(read_state, path))
    files.update(moments)
    lines += [f"{_count(len(moments), 'state')} of the archive"] * bool(moments)
    config = next((copy.config for copy in copies if copy.config.is_file()), None)
    if config is not None and not run.config.exists() and not run.releases.exists():
        files[run.config] = config.read_bytes
        lines.append(f"config.json from {config}")


def _told(decision: Decision) -> list[str]:
    best, number = decision.best, decision.number
    if number is None:
        return [decision.reason]
    rounded = "" if best.exact else ", rounded to bfloat16: a laptop's copy"
    onward = f"v{number} goes on from v{best.version} of {best.source.root}{rounded}"
    return [onward, decision.reason]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


# -- carrying it out


def carry_out(found: Survey, clock: Clock, hook: Hook = no_hook) -> int:
    """Do what the survey says; the version that the run goes on from.

    WeightsError when another process merges or restores here meanwhile; OSError of the disk.
    """
    store = Store(found.target.shared, hook)
    store.paths.inbox.mkdir(parents=True, exist_ok=True)
    lease = _claim(store.paths)
    try:
        for path, read in found.files.items():
            if path.exists():  # it does not verify
                store.set_aside(path, "damaged")
            write_copy(path, read, store.durable)
        return _go_on(store, found, clock)
    finally:
        lease.release("restored")


def _claim(shared: SharedPaths) -> Lease:
    """The merge lease, whose last holder is gone: :func:`writers` looked before."""
    view = read_lease(shared.lease)
    if view is not None and view.ended is None:
        end_term(shared.lease, view.term, "whoever held it is gone: a restore goes on")
    lease = Lease.claim(shared.lease, {"merger": "restore"})
    if lease is None:
        raise WeightsError(f"somebody merges or restores in {shared.root}", "look again")
    return lease


def _go_on(store: Store, found: Survey, clock: Clock) -> int:
    """The head of what is there, or the next version under a number that is nobody's."""
    number = found.decision.number
    if number is None:
        store.write_head(found.decision.best.version)
        return found.decision.best.version
    record = _next_version(store, found, number, round(clock.now(), 3))
    store.durable.hook("R1")
    store.paths.head.unlink(missing_ok=True)  # a hint at a lower number would hide the new one
    if not store.commit(record):
        raise WeightsError(f"somebody else wrote v{number}", "look at it, and say it again")
    store.durable.hook("R2")
    store.write_head(number)
    store.durable.hook("R3")
    return number


def _next_version(store: Store, found: Survey, number: int, ts: float) -> Version:
    """The commit record under which the run goes on.

    The newest record's totals and what it judged go on, so that nothing counts twice.
    """
    best, data = found.decision.best, _exact_bytes(found)
    blank = Version(
        run_id=found.card.run_id,
        schema=found.card.schema,
        state=store.put_blob(data, "state"),
        size=len(data),
        rule="delta",
        merger=f"restore of v{best.version}",
        ts=ts,
        assists=found.card.assists,
    )
    parent = None if found.newest is None else store.version(found.newest)
    known = parent or blank
    totals = dict(known.contributors)
    if (more := best.fleet_steps - sum(totals.values())) > 0:
        totals[UNTOLD] = totals.get(UNTOLD, 0) + more
    return replace(
        blank,
        version=number,
        parent="" if parent is None else store.record_hash(parent.version),
        base=number if parent is None else min(best.version, parent.version),
        rule=known.rule,
        denominator=known.denominator,
        consumed=dict(known.consumed),
        contributors=totals,
        norms=known.norms,
        fleet_steps=sum(totals.values()),
        restored=True,
        reverted=known.reverted,
    )


def _exact_bytes(found: Survey) -> bytes:
    """The state to go on from as float32; a laptop's is widened."""
    best = found.decision.best
    if best.exact:
        store = Store(best.source.shared)
        return store.get_blob(store.version(best.version).state)
    from Daddy.weights.encoding.state_codec import decode, encode

    rounded = best.source.rounded()
    if rounded is None or rounded[0].version != best.version:
        raise WeightsError(
            f"v{best.version} of {best.source.root} has gone meanwhile", "say it again"
        )
    return encode(decode(rounded[1], found.card.schema))


# -- writers


def now_there(folder: Path) -> float | None:
    """The file system's own time at ``folder``, in wall seconds; None where it takes no file."""
    probe = folder / f".tmp-now-{os.getpid()}-{uuid.uuid4().hex}"
    try:
        probe.touch(exist_ok=False)
        return probe.stat().st_mtime
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def writers(run: RunPaths | None, shared: SharedPaths, now: float) -> list[str]:
    """Processes that may still write there, in words: a controller, learners, mergers.

    One look cannot watch a counter stand still, and clocks of two machines are not compared: a
    beat's age is told by ``now``, the clock of the file system that holds it.
    """
    found = [] if run is None else [said for said in _holders(run, now) if said]
    for pulse in heartbeats.pulses(Store(shared)):
        age = _age(pulse.heartbeat, now)
        if not pulse.left and age is not None and age < SILENCE_S:
            found.append(f"{pulse.peer} beat {max(0.0, age):.0f} s ago in {shared.root}")
    return found


def _holders(run: RunPaths, now: float) -> Iterator[str]:
    yield _holder("the controller", run.controller_lease, now)
    with contextlib.suppress(OSError):
        for slot in sorted(run.slots.iterdir()):
            yield _holder(f"the learner of slot {slot.name}", slot / "lease", now)


def _holder(name: str, folder: Path, now: float) -> str:
    """A sentence on a lease's holder; empty for one that is gone: its process, or by silence."""
    view = read_lease(folder)
    if view is None or view.ended is not None:
        return ""
    alive = holder_alive(view.holder)
    if alive:
        return f"{name} lives, process {view.holder.get('pid')} of this host"
    age = _age(folder / "beat.json", now)
    if alive is False or age is None or age >= SILENCE_S:
        return ""
    return f"{name} beat {max(0.0, age):.0f} s ago on {view.holder.get('host')}"


def _age(path: Path, now: float) -> float | None:
    try:
        return now - path.stat().st_mtime
    except OSError:
        return None


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
        help="a mirror, a folder that a laptop pulled, a copy of the run; may be said again "
        "(the mirror in the home folder)",
    )
    add_settings(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 nothing verifies, another run, or it is written to, 9."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    from Daddy.core.config import load

    folder = args.run_dir if args.run is None else str(args.run.expanduser().absolute())
    config = load(args.config, {"run_dir": folder}, os.environ, args.site)
    target = _target(config)
    found = survey(target, _sources(args, config, target), KEPT_VERSIONS)
    if found.is_idle:
        print(f"{target.shared.root} lacks nothing: {found.decision.reason}")
        return ExitCode.DONE
    _refuse_written(target, dry_run=args.dry_run)
    return _say(found) if args.dry_run else _do(found)


def _target(config: Config) -> Source:
    from Daddy.core.config import run_paths, shared_paths

    run = run_paths(config)
    return Source(run.root, shared_paths(config), run)


def _sources(args: argparse.Namespace, config: Config, target: Source) -> list[Source]:
    """Those that were named, else the newest copy in the home directory, if there is one."""
    if args.sources:
        return [source_at(path.expanduser().absolute()) for path in args.sources]
    assert target.run is not None
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    copies = copies_of(folder, target.run, target.card())
    if not copies and not target.shared.merged.is_dir():
        raise WeightsError(
            f"{target.shared.root} is gone and {folder} holds no copy of it",
            "name a copy with --from: a laptop's folder will do",
        )
    return [source_at(path) for path in copies[:1]]


def _refuse_written(target: Source, *, dry_run: bool) -> None:
    """WeightsError while anybody may write; a look leaves no file, and trusts this host's clock."""
    root = target.shared.root
    now = None if dry_run or not root.is_dir() else now_there(root)
    found = writers(target.run, target.shared, SystemClock().now() if now is None else now)
    if found:
        raise WeightsError(
            f"somebody may still write to {root}: {'; '.join(found)}",
            "say `run_controller stop`, wait until the jobs have left, then say it again",
        )


def _say(found: Survey) -> int:
    print(f"would put back into {found.target.root}:")
    print("\n".join(f"  {line}" for line in found.lines))
    return ExitCode.DONE


def _do(found: Survey) -> int:
    number = carry_out(found, SystemClock())
    print(f"put back into {found.target.root}:")
    print("\n".join(f"  {line}" for line in found.lines))
    print(f"the run goes on from v{number}: start it again")
    return ExitCode.DONE


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
