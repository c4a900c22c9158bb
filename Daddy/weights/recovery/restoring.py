"""Putting back what a purge took, and going on from the best that is left.

First everything is looked at (:func:`survey`), then it is said, then done (:func:`carry_out`).
Nothing that is good is overwritten: files are created under names that say their content, and only
what does not verify is set aside. Killed anywhere it can be said again. Kill points: C1 to C5 of
each file, R1 before the new record, R2 between it and the head, R3 after the head.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.paths import RunPaths
from Daddy.weights.encoding.tensor_layout import schema_of_bytes
from Daddy.weights.recovery.best_states import hash_in
from Daddy.weights.recovery.mirroring import STATE_LIMIT
from Daddy.weights.recovery.restore_plan import (
    Candidate,
    Decision,
    Facts,
    decide,
    fitting,
    next_version,
)
from Daddy.weights.recovery.sources import Source
from Daddy.weights.store.durable import Hook, no_hook
from Daddy.weights.store.records import RunCard, Version
from Daddy.weights.store.store import Store

Known = dict[int, tuple[Version, bytes]]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a restore of ``target`` from ``sources`` would do."""

    target: Source
    sources: tuple[Source, ...]
    card: RunCard
    lacks_card: bool
    records: Mapping[int, bytes]
    """Commit records to put back."""
    states: tuple[tuple[Version, Source], ...]
    """Versions whose state to put back, and from where."""
    newest: int | None
    """The highest commit record there is then."""
    moments: tuple[tuple[Path, Path], ...]
    """Archive states to put back: from, to."""
    config: Path | None
    decision: Decision

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        wanted = (self.records, self.states, self.moments, self.config, self.lacks_card)
        return not any(wanted) and self.decision.number is None

    def lines(self) -> list[str]:
        """What is done, line by line."""
        best, number = self.decision.best, self.decision.number
        assert best is not None
        rounded = "" if best.exact else ", rounded to bfloat16: a laptop's copy"
        said = [f"RUN.json of run {self.card.run!r}"] * self.lacks_card
        said += [f"{_count(len(self.records), 'commit record')}"] * bool(self.records)
        said += [f"the state of v{one.version} from {source.root}" for one, source in self.states]
        said += [f"{_count(len(self.moments), 'state')} of the archive"] * bool(self.moments)
        said += [f"config.json from {self.config}"] * (self.config is not None)
        if number is not None:
            said.append(f"v{number} goes on from v{best.version} of {best.where}{rounded}")
        return [*said, self.decision.reason]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- looking


def survey(target: Source, sources: Sequence[Source], keep: int) -> Survey:
    """What is missing and what would follow; ``keep``: of how many versions states are put back.

    WeightsError: nothing verifies anywhere, or the folders speak of different runs.
    """
    card = _one_run(target, sources)
    ours = target.records()
    theirs: Known = {}
    for source in sources:
        for number, one in source.records().items():
            if one[0].run_id == card.run_id:
                theirs.setdefault(number, one)
    missing = fitting(_hashed(ours), _hashed(theirs).values())
    decision = decide(_facts(target, sources, ours))
    if decision.best is None:
        asked = ", ".join(str(one.root) for one in (target, *sources))
        raise WeightsError(f"{decision.reason}: {asked}", "name another source with --from")
    whole = {**ours, **{number: theirs[number] for number in missing}}
    return Survey(
        target=target,
        sources=tuple(sources),
        card=card,
        lacks_card=not target.shared.run.exists(),
        records={number: theirs[number][1] for number in missing},
        newest=max(whole, default=None),
        states=tuple(_states(target, sources, whole, keep)),
        moments=tuple(_moments(target, sources)),
        config=_config(target, sources),
        decision=decision,
    )


def _one_run(target: Source, sources: Sequence[Source]) -> RunCard:
    cards = [(one.root, card) for one in (target, *sources) if (card := one.card()) is not None]
    if not cards:
        raise WeightsError(
            f"nothing says which run {target.root} was", "name its copy, or a laptop's folder"
        )
    for root, card in cards[1:]:
        if (card.run_id, card.schema) != (cards[0][1].run_id, cards[0][1].schema):
            raise WeightsError(
                f"{root} is of run {card.run!r} {card.run_id[:8]}, {cards[0][0]} of "
                f"{cards[0][1].run!r} {cards[0][1].run_id[:8]}",
                "name a source of the same run; a run that began anew in this folder is moved away "
                "first",
            )
    return cards[0][1]


def _hashed(records: Known) -> dict[int, tuple[Version, str]]:
    return {number: (record, sha256_hex(data)) for number, (record, data) in records.items()}


def _facts(target: Source, sources: Sequence[Source], ours: Known) -> Facts:
    everywhere = (target, *sources)
    reverted = tuple(range_ for one in everywhere for range_ in one.reverted())
    return Facts(
        newest=max(ours, default=None),
        highest=max(one.highest() for one in everywhere),
        head=target.shared.head.exists(),
        candidates=tuple(found for one in everywhere for found in one.candidates(reverted)),
    )


def _states(
    target: Source, sources: Sequence[Source], whole: Known, keep: int
) -> list[tuple[Version, Source]]:
    """Of the newest versions those whose state is not here, and is in a source."""
    found, here = [], Store(target.shared)
    for number in sorted(whole)[-keep:]:
        record = whole[number][0]
        if not _has(here, record.state):
            holders = (one for one in sources if _has(Store(one.shared), record.state))
            found += [(record, one) for one in holders][:1]
    return found


def _has(store: Store, sha: str) -> bool:
    with contextlib.suppress(DaddyError, OSError):
        return bool(store.get_blob(sha))
    return False


def _moments(target: Source, sources: Sequence[Source]) -> list[tuple[Path, Path]]:
    """Archive states of the sources that the run's archive has not."""
    if target.run is None:
        return []
    found: dict[Path, Path] = {}
    for source in sources:
        archive = source.run.archive if source.run else None
        for path in sorted(archive.glob("*/*.state")) if archive else []:
            there = target.run.archive / path.parent.name / path.name
            if hash_in(path.name) and not there.exists():
                found.setdefault(there, path)
    return [(path, there) for there, path in found.items()]


def _config(target: Source, sources: Sequence[Source]) -> Path | None:
    """The configuration, for a run of which not even the releases are left."""
    if target.run is None or target.run.config.exists() or target.run.releases.exists():
        return None
    named = [one.run.config for one in sources if one.run is not None]
    return next((path for path in named if path.is_file()), None)


# -- doing


def carry_out(found: Survey, clock: Clock, hook: Hook = no_hook) -> int:
    """Do what the survey says; the version that the run goes on from.

    WeightsError when somebody else merges or restores here meanwhile; OSError of the disk.
    """
    store = Store(found.target.shared, hook)
    _put_card(store, found)
    lease = _claim(store)
    try:
        _put_back(store, found)
        number = _go_on(store, found, clock)
    finally:
        lease.release("restored")
    if found.target.run is not None:
        _put_beside(store, found, found.target.run)
    return number


def _claim(store: Store) -> Lease:
    """The merge lease: its last holder is gone, as was looked at before."""
    folder = store.paths.lease
    view = read_lease(folder)
    if view is not None and view.ended is None:
        end_term(folder, view.term, "whoever held it is gone: a restore goes on")
    lease = Lease.claim(folder, {"merger": "restore"})
    if lease is None:
        raise WeightsError(f"somebody merges or restores in {store.paths.root}", "look again")
    return lease


def _put_card(store: Store, found: Survey) -> None:
    paths = store.paths
    if found.lacks_card:
        store.durable.create(paths.run, found.card.to_bytes(), "card")
    paths.inbox.mkdir(parents=True, exist_ok=True)


def _put_back(store: Store, found: Survey) -> None:
    """States first: a record never speaks of one that is still to come."""
    for record, source in found.states:
        store.mend_blob(Store(source.shared).get_blob(record.state))
    for number, data in found.records.items():
        path = store.paths.version(number)
        if path.exists():  # what does not read as a record
            store.set_aside(path, "damaged")
        store.durable.create(path, data, "record", mode=0o444)


def _go_on(store: Store, found: Survey, clock: Clock) -> int:
    """The head of what is there, or the next version under a number that nobody has."""
    number, best = found.decision.number, found.decision.best
    assert best is not None
    if number is None:
        store.write_head(best.version)
        return best.version
    data = _state(found, best)
    parent = None
    if found.newest is not None:
        parent = (store.version(found.newest), store.record_hash(found.newest))
    blank = Version.first(
        run_id=found.card.run_id,
        schema=found.card.schema,
        state=store.put_blob(data, "state"),
        size=len(data),
        rule="delta",
        merger="",
        ts=0.0,
        assists=found.card.assists,
    )
    record = next_version(found.decision, parent, blank, round(clock.now(), 3))
    store.durable.hook("R1")
    store.paths.head.unlink(missing_ok=True)  # a hint at a lower number would hide the new one
    if not store.commit(record):
        raise WeightsError(f"somebody else wrote v{number}", "look at it, and say it again")
    store.durable.hook("R2")
    store.write_head(number)
    store.durable.hook("R3")
    return number


def _state(found: Survey, best: Candidate) -> bytes:
    """The state's fp32 bytes; those of a laptop are widened."""
    source = next(one for one in (found.target, *found.sources) if str(one.root) == best.where)
    if best.exact:
        store = Store(source.shared)
        return store.get_blob(store.version(best.version).state)
    from Daddy.weights.encoding.state_codec import decode, encode

    rounded = source.rounded()
    if rounded is None or rounded[0].version != best.version:
        raise WeightsError(f"v{best.version} of {best.where} has gone meanwhile", "say it again")
    data = encode(decode(rounded[1], found.card.schema))
    assert schema_of_bytes(data) == found.card.schema
    return data


def _put_beside(store: Store, found: Survey, run: RunPaths) -> None:
    """The archive's states and the configuration: nothing of the weights waits for them."""
    for source, there in found.moments:
        with contextlib.suppress(FileNotFoundError, DaddyError):
            data = read_bounded(source, STATE_LIMIT)
            if sha256_hex(data) == hash_in(source.name):
                store.durable.create(there, data, "moment", mode=0o444)
    if found.config is not None:
        store.durable.create(run.config, found.config.read_bytes(), "config", mode=0o600)
