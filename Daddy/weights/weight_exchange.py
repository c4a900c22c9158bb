"""A job's exchange with the shared weights: implements the learner's WeightExchange.

Training goes on when the shared folder cannot be read or written: the error is reported as an
event, and the next call tries again. Only :meth:`SharedExchange.join_fleet` may raise, because
without a common first version there is nothing to share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.host_and_processes import host_name
from Daddy.core.name_validation import WRITER, check_peer, new_token
from Daddy.core.shared_types import Adoption, EventSink
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict, copy_state, is_finite
from Daddy.weights.encoding.state_codec import encode, schema_of
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge import contributions
from Daddy.weights.merge.merger import Merger
from Daddy.weights.merge.slot_fencing import Fence, make_fence
from Daddy.weights.resume_unmerged_progress import ancestry, resume_from_checkpoint
from Daddy.weights.store import heartbeats
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.laptop_downloads import offer_version
from Daddy.weights.store.rebuild_version import newest_state
from Daddy.weights.store.weight_records import Contribution, RunCard, Version
from Daddy.weights.store.weight_store import Store
from Daddy.weights.unmerged_progress import (
    BaseVersion,
    PeerProgress,
    find_outcome,
    read_progress_note,
)

CHECK_S = 10.0
"""Seconds between two checks of other accounts' folders for faults."""


class SharedExchange:
    """A job's access to one ``shared_weights`` folder. Not for use by several threads."""

    store_class: type[Store] = Store

    def __init__(
        self,
        shared: SharedPaths,
        peer: str,
        incarnation: str,
        settings: ExchangeSettings,
        clock: Clock,
        events: EventSink,
        hook: Hook = no_hook,
        *,
        term: int = 0,
    ) -> None:
        self._store = self.store_class(shared, hook)
        self._peer, self._incarnation = check_peer(peer, WRITER), incarnation
        self._settings = settings
        self._clock = clock
        self._events = events
        self._merger = Merger(self._store, settings, clock, f"{peer}/{incarnation}")
        self._fence = Fence(term)
        self._beats = self._offered = self._fleet_steps = 0
        self._last_publish: float | None = None
        self._known_problems: set[str] = set()
        self._checked_at: float | None = None
        self._period_s = settings.period_s
        self._progress: PeerProgress | None = None

    @property
    def _at(self) -> PeerProgress:
        if self._progress is None:
            raise WeightsError("join_fleet() has not been called", "call join_fleet() first")
        return self._progress

    # -- WeightExchange

    def join_fleet(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """Return weights to start from: version 0 of our own, the newest, or resumed ones rebased.
        Raise WeightsError when the folder belongs to other weights or nothing in it can be read.
        """
        schema, rules = schema_of(own := copy_state(initial())), self._settings
        card = RunCard(rules.run, new_token(), rules.workload, schema, rules.assists, rules.terms)
        run_id = self._store.open(card).run_id
        if self._store.newest() is None:
            self._write_first(own, run_id, schema)
        record, base = self._load_newest()
        self._progress = PeerProgress(
            run_id=run_id,
            incarnation=self._incarnation,
            version=base.version,
            base=base,
            anchor=base.weights,
            absolute=rules.rule == "polyak",
        )
        note = None if resumed is None else read_progress_note(resumed)
        offered_before = {} if note is None else {note.incarnation: note.sequence}
        self._fence = make_fence(self._store, self._peer, self._fence.term, offered_before)
        since = record.version if note is None else note.version
        offered = contributions.steps_offered_by(self._store, self._peer, since)
        self._at.before = ancestry(note, offered)
        self._beat()
        heartbeats.write_stamp(self._store)
        self._repair_heads(record, base.weights)
        if resumed is None:
            return Adoption(base.version, copy_state(base.weights), f"began with v{base.version}")
        if note is None:
            self._at.env_steps = -1
            return Adoption(base.version, copy_state(base.weights), f"joined at v{base.version}")
        facts = (note, offered, self._peer, rules.max_staleness)
        return resume_from_checkpoint(self._store, self._at, record, own, *facts)

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer progress since the last offer; totals are this peer's since its run began."""
        try:
            message = self._publish(copy_state(weights), env_steps, optimizer_steps)
            self._merge()
        except (OSError, DaddyError) as error:
            message = f"not published: {error}; training goes on and it is tried again"
            self._report("error", {"what": "publish", "reason": message})
        return message

    def adopt(self, weights: StateDict) -> Adoption | None:
        """Merge if it is due and no other job does; return a newer version, rebased, or None."""
        with self._reporting_errors("adopt"):
            self._beat()
            self._merge()
            if self._store.seen != self._at.base.version:
                return self._adopt_newest(copy_state(weights))
        return None

    def beat(self) -> None:
        """Write a heartbeat, for learners that call ``adopt`` too rarely."""
        with self._reporting_errors("beat"):
            self._beat()

    def fleet_steps(self) -> int:
        """Return environment steps of all contributors in the newest readable version."""
        with contextlib.suppress(OSError, DaddyError):
            newest = self._store.newest()
            if newest is not None:
                self._fleet_steps = self._store.version(newest).fleet_steps
        return self._fleet_steps

    def resume_state(self) -> bytes:
        """Return the note from which a successor continues with these weights."""
        return self._at.to_json_bytes()

    def leave_fleet(self, reason: str) -> None:
        """Mark this job as left, so that no merge waits for it; the last job merges the rest."""
        with self._reporting_errors("leave"):
            self._beat(leave_reason=reason)
            if self._merger.no_live_job():
                self._merge(period_s=0.0)

    # -- the first version

    def _write_first(self, own: StateDict, run_id: str, schema: str) -> None:
        """Write version 0; the first job to create its record sets the common initialisation."""
        data = encode(own)
        record = Version(
            run_id=run_id,
            schema=schema,
            state=self._store.put_blob(data, "state"),
            size=len(data),
            rule=self._settings.rule,
            merger=f"{self._peer}/{self._incarnation}",
            ts=round(self._clock.now(), 3),
            assists=self._settings.assists,
        )
        self._store.commit(record)

    def _load_newest(self) -> tuple[Version, BaseVersion]:
        """Return the newest version that verifies or can be rebuilt from its inputs."""
        newest = self._store.newest()
        assert newest is not None
        keep = self._settings.keep_versions
        record, weights = newest_state(self._store, newest, keep, self._report)
        return record, BaseVersion(record.version, record.state, weights)

    def _repair_heads(self, record: Version, state: StateDict) -> None:
        """Write head and laptop files that a merger did not write before it crashed."""
        self._store.write_head(record.version)
        offered, ours = self._store.keyframe(), self._settings
        if ours.wan and (offered is None or offered.version < record.version):
            data = encode(state, half=True)
            offer_version(self._store, record.version, data, ours.laptop_terms, ours.release)

    # -- publishing

    def _publish(self, own: StateDict, env_steps: int, optimizer_steps: int) -> str:
        at = self._at
        if at.env_steps < 0:
            at.count_steps(env_steps, optimizer_steps)
            return "counting begins here: the steps before were learnt outside these weights"
        steps, updates = env_steps - at.env_steps, optimizer_steps - at.optimizer_steps
        if steps <= 0 or updates <= 0:
            return "nothing to publish: no step since the last contribution"
        if not is_finite(own):
            return "not published: the weights are not finite"
        delta = at.delta_to_offer(own)
        data = encode(delta)
        offer = Contribution(
            run_id=at.run_id,
            schema=schema_of(delta),
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=at.sequence + 1,
            blob=self._store.put_blob(data, "blob"),
            size=len(data),
            base_version=at.base.version,
            base_state=at.base.state,
            env_steps=steps,
            new_steps=max(0, env_steps - max(at.counted_steps, at.env_steps)),
            optimizer_steps=updates,
            assists=self._settings.assists,
        )
        self._beat(offering=offer.sequence)  # first: readers stop at this number
        self._store.writer.hook("C6")
        contributions.write_contribution(self._store, offer)
        self._store.writer.hook("C7")
        at.record_offer(own, delta, offer.blob)
        at.count_steps(env_steps, optimizer_steps)
        self._measure_period()
        return f"contribution {at.sequence} on v{at.base.version}, {steps} steps"

    def _measure_period(self) -> None:
        """Shorten the wait for others to the time between our own last two publications."""
        now = self._clock.monotonic()
        if self._last_publish is not None:
            self._period_s = min(self._settings.period_s, now - self._last_publish)
        self._last_publish = now

    def _merge(self, period_s: float | None = None) -> None:
        self._report_problems()
        record = self._merger.try_merge(self._period_s if period_s is None else period_s)
        if record is not None:
            self._report("state", {
                "state": "merged",
                "version": record.version,
                "inputs": [f"{entry.peer}/{entry.sequence}" for entry in record.inputs],
                "refused": [f"{no.peer}/{no.sequence}: {no.reason}" for no in record.refused],
            })  # fmt: skip

    def _report_problems(self) -> None:
        """Report faults of other accounts' folders once each, checked every ``CHECK_S``."""
        now = self._clock.monotonic()
        last = self._checked_at
        if last is None or (not self._store.alone and now - last >= CHECK_S):
            self._checked_at = now
            for problem in sorted(set(self._store.list_problems()) - self._known_problems):
                self._known_problems.add(problem)
                self._report("error", {"what": "another account's folder", "reason": problem})

    # -- adopting

    def _adopt_newest(self, own: StateDict) -> Adoption | None:
        at = self._at
        record, base = self._load_newest()
        if base.version <= at.base.version:
            return None
        fate = find_outcome(self._store, self._peer, self._incarnation, at.base.version, record)
        for number, (_, reason) in fate.refused.items():
            self._report("state", {"state": "refused", "sequence": number, "reason": reason})
        adoption = at.rebase(base, own, fate)
        with self._reporting_errors("adopt"):  # an error here does not undo the adoption
            self._beat()
            self._repair_heads(record, base.weights)
        return adoption

    # -- heartbeats

    def _beat(self, offering: int = 0, leave_reason: str | None = None) -> None:
        self._beats += 1
        self._offered = max(self._offered, offering)
        notes = {
            "host": host_name(),
            "term": self._fence.term,
            "fence": dict(self._fence.after),
            **({} if leave_reason is None else {"reason": leave_reason}),
        }
        heartbeat = Heartbeat(
            self._store.paths.peer(self._peer, self._incarnation),
            counter=self._beats,
            version=0 if self._progress is None else self._progress.base.version,
            left=leave_reason is not None,
            offered=self._offered,
            notes=notes,
        )
        heartbeats.write_heartbeat(self._store, heartbeat, sync=offering > 0)
        self._merger.reader.mine = heartbeat

    @contextlib.contextmanager
    def _reporting_errors(self, action: str) -> Iterator[None]:
        """Report a failure of the body instead of raising it: training goes on."""
        try:
            yield
        except (OSError, DaddyError) as error:
            self._report("error", {"what": action, "reason": str(error)})

    def _report(self, event: str, data: Mapping[str, object]) -> None:
        try:
            self._events.write(event, self.fleet_steps(), data)
        except (OSError, DaddyError, ValueError):  # a full disk must not stop training
            return
