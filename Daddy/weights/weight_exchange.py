"""A job's exchange with the shared weights: implements the learner's WeightExchange.

1. ``join_fleet`` takes the newest version as the base; the first job writes version 0.
2. The learner trains a copy of the base; then steps 3 to 5 repeat.
3. ``publish`` writes delta = weights - base, less the deltas that it published before.
4. ``publish`` and ``adopt`` merge all jobs' deltas into the next version, if a merge is due.
5. ``adopt`` makes the newest version the base, and adds own progress that it does not contain.

Progress after the last contribution exists only in the checkpoint. A resumed job keeps it, unless
the process that wrote the checkpoint offered it later, or the checkpoint's base is too old.

When the shared folder cannot be read or written, training goes on: the error is reported as an
event, and the next call tries again. Only ``join_fleet`` may raise, because without a common first
version there is nothing to share.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.host_and_processes import host_name
from Daddy.core.name_validation import WRITER, check_peer, new_token
from Daddy.core.shared_types import Adoption, EventSink
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_arithmetic import (
    StateDict,
    add_deltas,
    copy_state,
    difference,
    is_finite,
)
from Daddy.weights.encoding.state_codec import decode, encode, schema_of
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge import contributions
from Daddy.weights.merge.merger import Merger
from Daddy.weights.merge.slot_fencing import Fence, make_fence
from Daddy.weights.store import heartbeats
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.laptop_downloads import offer_version
from Daddy.weights.store.rebuild_version import newest_state
from Daddy.weights.store.weight_records import Contribution, RunCard, Version
from Daddy.weights.store.weight_store import Store
from Daddy.weights.unmerged_progress import (
    BaseVersion,
    Key,
    PeerProgress,
    ProgressNote,
    find_outcome,
    read_progress_note,
)

CHECK_S = 10.0
"""Seconds between two checks of other accounts' folders for faults."""
ANCESTORS = 16
"""Older processes of a peer that are remembered: no older one has offers pending."""
OFFERED_ALREADY = "progress after the checkpoint was offered already"


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
        self._joined: PeerProgress | None = None

    @property
    def _progress(self) -> PeerProgress:
        if self._joined is None:
            raise WeightsError("join_fleet() has not been called", "call join_fleet() first")
        return self._joined

    # -- WeightExchange

    def join_fleet(
        self,
        initial: Callable[[], StateDict],
        resumed: bytes | None,
        env_steps: int = 0,
        optimizer_steps: int = 0,
    ) -> Adoption:
        """Join the run and return the starting weights. The first job writes its own as version 0;
        a new job takes the newest version; a resumed one moves its checkpoint's unmerged progress
        onto it. Totals are the checkpoint's: steps of progress that is dropped are never offered.
        Raise WeightsError when the folder is another policy's or no version is readable.
        """
        weights = copy_state(initial())
        run_id = self._open_store(weights)
        record, base = self._load_newest()
        progress = self._start_progress(run_id, base)
        note = None if resumed is None else read_progress_note(resumed)
        self._start_fence(note)
        since_version = record.version if note is None else note.version
        offered = contributions.steps_offered_by(self._store, self._peer, since_version)
        progress.before = _ancestry(note, offered)
        progress.count_steps(env_steps, optimizer_steps)
        self._beat()
        heartbeats.write_stamp(self._store)
        self._repair_heads(record, base.weights)
        if note is not None:
            return _resume_from_checkpoint(
                self._store,
                progress,
                record,
                weights,
                note,
                offered,
                peer=self._peer,
                max_staleness=self._settings.max_staleness,
            )
        reason = f"began with v{base.version}"
        if resumed is not None:  # a checkpoint that was made without shared weights
            reason = f"joined at v{base.version}"
        return Adoption(base.version, copy_state(base.weights), reason)

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer progress since the last offer; totals are this peer's since its run began."""
        try:
            message = self._publish(copy_state(weights), env_steps, optimizer_steps)
            self._merge()
        except (OSError, DaddyError) as error:
            message = f"not published: {error}; training goes on and it is tried again"
            self._report("error", {"what": "publish", "reason": message})
        return message

    def adopt(
        self, weights: StateDict, env_steps: int = 0, optimizer_steps: int = 0
    ) -> Adoption | None:
        """Merge if it is due and no other job does; return a newer version, rebased, or None.
        Totals are this peer's now: steps of progress that is dropped are never offered.
        """
        with self._reporting_errors("adopt"):
            self._beat()
            self._merge()
            if self._store.seen != self._progress.base.version:
                return self._adopt_newest(copy_state(weights), env_steps, optimizer_steps)
        return None

    def restart_from_newest(self, env_steps: int) -> Adoption:
        """Drop own progress; return the newest version that can be read now."""
        self.adopt(self._progress.base.weights)
        return self._progress.restart(env_steps)

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
        return self._progress.to_json_bytes()

    def leave_fleet(self, reason: str) -> None:
        """Mark this job as left, so that no merge waits for it; the last job merges the rest."""
        with self._reporting_errors("leave"):
            self._beat(leave_reason=reason)
            if self._merger.no_live_job():
                self._merge(period_s=0.0)

    # -- joining

    def _open_store(self, weights: StateDict) -> str:
        """Return the folder's run id; in an empty folder write run card and version 0 first."""
        settings = self._settings
        card = self._store.open(
            RunCard(
                run=settings.run,
                run_id=new_token(),
                workload=settings.workload,
                schema=schema_of(weights),
                assists=settings.assists,
                terms=settings.terms,
            )
        )
        if self._store.newest() is None:
            self._write_first(weights, card.run_id, card.schema)
        return card.run_id

    def _start_progress(self, run_id: str, base: BaseVersion) -> PeerProgress:
        self._joined = PeerProgress(
            run_id=run_id,
            incarnation=self._incarnation,
            version=base.version,
            base=base,
            anchor=base.weights,
            absolute=self._settings.rule == "polyak",
        )
        return self._joined

    def _start_fence(self, note: ProgressNote | None) -> None:
        """Refuse later offers by older processes of this slot; ``note`` names offers that count."""
        offered_before = {} if note is None else {note.incarnation: note.sequence}
        self._fence = make_fence(self._store, self._peer, self._fence.term, offered_before)

    def _write_first(self, weights: StateDict, run_id: str, schema: str) -> None:
        """Write version 0; the first job to create its record sets the common initialisation."""
        data = encode(weights)
        record = Version(
            run_id=run_id,
            schema=schema,
            rule=self._settings.rule,
            assists=self._settings.assists,
            version=self._store.next_number(-1),
            state=self._store.put_blob(data, "state"),
            size=len(data),
            merger=f"{self._peer}/{self._incarnation}",
            ts=round(self._clock.now(), 3),
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
        offered, settings = self._store.keyframe(), self._settings
        if settings.wan and (offered is None or offered.version < record.version):
            facts = (settings.laptop_terms, settings.release)
            offer_version(self._store, record.version, encode(state, half=True), *facts)

    # -- publishing

    def _publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        progress = self._progress
        steps = env_steps - progress.env_steps
        updates = optimizer_steps - progress.optimizer_steps
        if steps <= 0 or updates <= 0:
            return "nothing to publish: no step since the last contribution"
        if not is_finite(weights):
            return "not published: the weights are not finite"
        delta = progress.delta_to_offer(weights)
        data = encode(delta)
        # Steps replayed after a crash were counted before.
        counted_steps = max(progress.counted_steps, progress.env_steps)
        offer = Contribution(
            run_id=progress.run_id,
            schema=schema_of(delta),
            assists=self._settings.assists,
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=progress.sequence + 1,
            blob=self._store.put_blob(data, "blob"),
            size=len(data),
            base_version=progress.base.version,
            base_state=progress.base.state,
            env_steps=steps,
            optimizer_steps=updates,
            new_steps=max(0, env_steps - counted_steps),
        )
        # Heartbeat first: mergers read only the contributions that it announces. If the job dies
        # in between, 12 is announced but missing, and the successor repeats the work: no loss. In
        # the other order mergers would ignore 12, and the successor would count it as delivered.
        self._beat(offering=offer.sequence)
        self._store.writer.hook("C6")  # here, and at C7, a test can kill the job
        contributions.write_contribution(self._store, offer)
        self._store.writer.hook("C7")
        progress.record_offer(weights, delta, offer)
        progress.count_steps(env_steps, optimizer_steps)
        self._measure_period()
        return f"contribution {offer.sequence} on v{offer.base_version}, {steps} steps"

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
            self._report(
                "state",
                {
                    "state": "merged",
                    "version": record.version,
                    "inputs": [f"{entry.peer}/{entry.sequence}" for entry in record.inputs],
                    "refused": [
                        f"{refusal.peer}/{refusal.sequence}: {refusal.reason}"
                        for refusal in record.refused
                    ],
                },
            )

    # -- adopting

    def _adopt_newest(
        self, weights: StateDict, env_steps: int, optimizer_steps: int
    ) -> Adoption | None:
        record, base = self._load_newest()
        old_base = self._progress.base.version
        if base.version <= old_base:
            return None
        outcome = find_outcome(self._store, self._peer, self._incarnation, old_base, record)
        for sequence, (_, reason) in outcome.refused.items():
            self._report("state", {"state": "refused", "sequence": sequence, "reason": reason})
        adoption = self._progress.rebase(base, weights, outcome, env_steps, optimizer_steps)
        with self._reporting_errors("adopt"):  # an error here does not undo the adoption
            self._beat()
            self._repair_heads(record, base.weights)
        return adoption

    # -- heartbeats

    def _beat(self, offering: int = 0, leave_reason: str | None = None) -> None:
        self._beats += 1
        self._offered = max(self._offered, offering)
        fence, left = dict(self._fence.after), leave_reason is not None
        notes = {"host": host_name(), "term": self._fence.term, "fence": fence}
        heartbeat = Heartbeat(
            self._store.paths.peer(self._peer, self._incarnation),
            counter=self._beats,
            version=0 if self._joined is None else self._joined.base.version,
            left=left,
            offered=self._offered,
            notes=notes | ({"reason": leave_reason} if left else {}),
        )
        heartbeats.write_heartbeat(self._store, heartbeat, sync=offering > 0)
        self._merger.reader.mine = heartbeat

    # -- reporting

    @contextlib.contextmanager
    def _reporting_errors(self, action: str) -> Iterator[None]:
        """Report a failure of the body instead of raising it: training goes on."""
        try:
            yield
        except (OSError, DaddyError) as error:
            self._report("error", {"what": action, "reason": str(error)})

    def _report_problems(self) -> None:
        """Report faults of other accounts' folders once each, checked every ``CHECK_S``."""
        now = self._clock.monotonic()
        last = self._checked_at
        if last is None or (not self._store.alone and now - last >= CHECK_S):
            self._checked_at = now
            for problem in sorted(set(self._store.list_problems()) - self._known_problems):
                self._known_problems.add(problem)
                self._report("error", {"what": "another account's folder", "reason": problem})

    def _report(self, event: str, data: Mapping[str, object]) -> None:
        try:
            self._events.write(event, self.fleet_steps(), data)
        except (OSError, DaddyError, ValueError):  # a full disk must not stop training
            return


def _resume_from_checkpoint(
    store: Store, progress: PeerProgress, newest: Version, own: StateDict, note: ProgressNote,
    offered: Mapping[Key, int], peer: str, max_staleness: int,
) -> Adoption:  # fmt: skip
    """Return the checkpoint's weights (``own``) rebased on ``newest``, or those of ``newest``.

    ``progress`` has the base ``newest`` and the checkpoint's totals, and gets the anchor, pending
    offers and, unless progress is dropped, the totals of ``note``. ``offered``: new steps that any
    process of the peer offered since the checkpoint: steps played again are not counted twice.
    """
    if note.env_steps > progress.env_steps:  # a caller without totals
        progress.count_steps(note.env_steps, note.optimizer_steps)
    contained = note.known
    later = {key: steps for key, steps in offered.items() if key[1] > contained.get(key[0], 0)}
    progress.counted_steps = note.counted_steps + sum(later.values())
    try:
        _check_checkpoint(store, newest, note, peer, max_staleness)
        if later:
            raise WeightsError(OFFERED_ALREADY)
        base = store.version(note.version)
        old = decode(store.read_blob(base.state), base.schema)
        deltas = {k: decode(store.read_blob(sha), base.schema) for k, sha in note.pending.items()}
        rest = [decode(store.read_blob(note.held_back), base.schema)] if note.held_back else []
    except WeightsError as error:
        reason = f"took v{newest.version}: {error.message}"
        return Adoption(newest.version, copy_state(progress.base.weights), reason)
    if note.env_steps >= 0:
        progress.env_steps, progress.optimizer_steps = note.env_steps, note.optimizer_steps
    progress.inherited = {
        (incarnation, number): sha
        for (incarnation, number), sha in note.pending.items()
        if number > newest.judged(f"{peer}/{incarnation}")
    }
    waiting = [deltas[key] for key in progress.inherited]
    # Offers of absolute weights: the last since the rebase contains those before it.
    last = deltas.get((note.incarnation, note.contained))
    summed = [*deltas.values(), *rest] if not progress.absolute else [last] if last else rest
    anchor = add_deltas(old, *summed)
    if newest.version == note.version and len(waiting) == len(deltas) and not rest:
        progress.anchor = anchor
        return Adoption(newest.version, own, f"resumed on v{newest.version}")
    since = difference(own, anchor)
    progress.anchor = add_deltas(progress.base.weights, *([] if progress.absolute else waiting))
    reason = f"resumed from v{note.version}, rebased on v{newest.version}"
    return Adoption(newest.version, add_deltas(progress.anchor, since), reason)


def _check_checkpoint(
    store: Store, newest: Version, note: ProgressNote, peer: str, max_staleness: int
) -> None:
    """Raise WeightsError with the reason to drop the checkpoint's progress, if there is one."""
    if note.run_id != newest.run_id:
        raise WeightsError("the checkpoint belongs to another run")
    if newest.version < note.version:
        raise WeightsError(f"the checkpoint's base v{note.version} is gone")
    if (lag := newest.version - note.version) > max_staleness:
        raise WeightsError(f"the checkpoint's base is {lag} versions old")
    outcome = find_outcome(store, peer, note.incarnation, note.version, newest)
    for number in note.blobs:
        if outcome.refused.get(number, ("",))[0] == "reverted":
            raise WeightsError(f"contribution {number} was reverted")
    if outcome.base_reverted:
        raise WeightsError(outcome.base_reverted)
    if outcome.judged > note.sequence:
        raise WeightsError(OFFERED_ALREADY)


def _ancestry(note: ProgressNote | None, offered: Mapping[Key, int]) -> dict[str, int]:
    """Return by process of the peer the last sequence that its progress contains now."""
    contained = {} if note is None else note.known
    for incarnation, number in sorted(offered):
        contained[incarnation] = max(number, contained.get(incarnation, 0))
    return dict(list(contained.items())[-ANCESTORS:])
