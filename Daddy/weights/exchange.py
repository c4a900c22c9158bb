"""One job's part in the shared weights: implements the learner's WeightExchange port.

Book-keeping in one line: own weights = base + deltas published but not yet merged + progress since.
``anchor`` is the first two; a contribution is own weights - anchor, so every bit of progress is
offered exactly once, and on adoption what has not been merged is carried over to the new version.
Training goes on when the shared folder cannot be written; what failed is said and tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.machine import host_name
from Daddy.core.names import check_peer
from Daddy.core.paths import SharedPaths
from Daddy.weights import offers
from Daddy.weights.codec import decode, encode, schema_of
from Daddy.weights.durable import Hook, no_hook
from Daddy.weights.manifest import Contribution, Version
from Daddy.weights.merger import Merger
from Daddy.weights.offers import Pulse
from Daddy.weights.polyak import StateDict, add, copy, difference, is_finite
from Daddy.weights.replay import repair
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store import Store


class EventSink(Protocol):
    """Where facts are written down."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None: ...


@dataclass(frozen=True, slots=True)
class Adoption:
    """A version taken over: its number, the weights to go on with, and why."""

    version: int
    weights: StateDict
    reason: str


@dataclass(slots=True)
class Progress:
    """Where this peer stands relative to the shared weights."""

    version: int
    base_state: str
    base: StateDict
    anchor: StateDict
    unmerged: dict[int, StateDict] = field(default_factory=dict)
    blobs: dict[int, str] = field(default_factory=dict)
    sequence: int = 0
    env_steps: int = 0
    counted_steps: int = 0
    optimizer_steps: int = 0


class SharedExchange:
    """A job's view of one ``shared_weights`` folder."""

    def __init__(
        self,
        shared: SharedPaths,
        peer: str,
        incarnation: str,
        settings: ExchangeSettings,
        clock: Clock,
        events: EventSink,
        hook: Hook = no_hook,
    ) -> None:
        self._store = Store(shared, hook)
        self._peer = check_peer(peer)
        self._incarnation = incarnation
        self._settings = settings
        self._clock = clock
        self._events = events
        self._merger = Merger(self._store, settings, clock, f"{peer}/{incarnation}")
        self._schema = ""
        self._run_id = ""
        self._beats = 0
        self._last_publish: float | None = None
        self._period_s = settings.period_s
        self._progress: Progress | None = None

    @property
    def _at(self) -> Progress:
        if self._progress is None:
            raise WeightsError("begin() has not been called", "call begin() first")
        return self._progress

    # -- the port

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """Weights to start from: version 0 if we are first, the newest, or our own, rebased.

        WeightsError when the folder belongs to other weights or nothing in it can be read.
        """
        own = copy(initial())
        self._schema = schema_of(own)
        card = self._store.open(self._settings.run, self._settings.workload, self._schema)
        self._run_id = card.run_id
        if self._store.newest() is None:
            self._write_first(own)
        record, state = self._load_newest()
        self._stand_on(record, state)
        self._beat(left=False)
        self._heal(record, state)
        if resumed is None:
            return Adoption(record.version, copy(state), f"began with v{record.version}")
        return self._resume(record, own, resumed)

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer progress since the last offer; totals are this peer's since its run began."""
        try:
            said = self._publish(copy(weights), env_steps, optimizer_steps)
            self._merge()
        except OSError as error:
            said = f"not published: {error}; training goes on and it is tried again"
            self._tell("error", {"what": "publish", "reason": said})
        return said

    def adopt(self, weights: StateDict) -> Adoption | None:
        """Merge if it is due and nobody else does; a newer version, rebased, if there is one."""
        try:
            self._beat(left=False)
            self._merge()
            if self._store.newest() == self._at.version:
                return None
            return self._adopt_newest(copy(weights))
        except (OSError, WeightsError) as error:
            self._tell("error", {"what": "adopt", "reason": str(error)})
            return None

    def fleet_steps(self) -> int:
        """Environment steps of all contributors in the newest version."""
        newest = self._store.newest()
        return 0 if newest is None else self._store.version(newest).fleet_steps

    def bookkeeping(self) -> bytes:
        """What a successor needs besides the weights to go on."""
        at = self._at
        return json.dumps({
            "format": 1,
            "run_id": self._run_id,
            "incarnation": self._incarnation,
            "version": at.version,
            "sequence": at.sequence,
            "unmerged": {str(number): sha for number, sha in sorted(at.blobs.items())},
            "env_steps": at.env_steps,
            "counted_steps": at.counted_steps,
            "optimizer_steps": at.optimizer_steps,
        }, sort_keys=True).encode()  # fmt: skip

    def leave(self, reason: str) -> None:
        """Say goodbye, so that nobody waits for us. Optional: silence says it too, later."""
        self._beat(left=True, notes={"reason": reason})

    # -- beginning

    def _write_first(self, own: StateDict) -> None:
        """Write version 0; whoever creates its record first has given the common initialisation."""
        data = encode(own)
        record = Version(
            version=0,
            run_id=self._run_id,
            schema=self._schema,
            parent="",
            base=0,
            state=self._store.put_blob(data, "state"),
            size=len(data),
            rule=self._settings.rule,
            denominator=0.0,
            inputs=(),
            refused=(),
            consumed={},
            contributors={},
            norms=[],
            fleet_steps=0,
            merger=f"{self._peer}/{self._incarnation}",
            ts=round(self._clock.now(), 3),
        )
        self._store.commit(record)

    def _load_newest(self) -> tuple[Version, StateDict]:
        """The newest version that verifies; a damaged one is repaired by replay or passed over."""
        newest = self._store.newest()
        assert newest is not None
        first_error: WeightsError | None = None
        for number in range(newest, max(-1, newest - self._settings.keep_versions - 1), -1):
            try:
                record = self._store.version(number)
                data = repair(self._store, record)
                return record, decode(data, self._schema)
            except WeightsError as error:
                first_error = first_error or error
                self._tell("error", {"what": f"v{number} is passed over", "reason": str(error)})
        raise first_error or WeightsError("no version can be read", "restore the shared weights")

    def _stand_on(self, record: Version, state: StateDict) -> None:
        self._progress = Progress(record.version, record.state, state, state)

    def _heal(self, record: Version, state: StateDict) -> None:
        """Finish what a merger that died after its commit left undone: heads and keyframe."""
        self._store.write_head(record.version)
        if not self._settings.wan:
            return
        offered = self._store.keyframe()
        if offered is None or offered.version < record.version:
            self._store.write_keyframe(record.version, encode(state, half=True))

    # -- resuming

    def _resume(self, record: Version, own: StateDict, resumed: bytes) -> Adoption:
        """Own checkpointed weights, rebased, unless their progress was published or is too old."""
        try:
            note = json.loads(resumed)
            base = self._store.version(int(note["version"]))
            author = f"{self._peer}/{note['incarnation']}"
            refusal = self._why_not_resume(record, note, author)
            unmerged = {
                int(number): decode(self._store.get_blob(sha), self._schema)
                for number, sha in note["unmerged"].items()
            }
            old_state = decode(self._store.get_blob(base.state), self._schema)
        except (WeightsError, ValueError, KeyError, TypeError) as error:
            refusal, note = f"its base is gone ({error})", {}
        at = self._at
        at.env_steps = int(note.get("env_steps", 0))
        at.counted_steps = int(note.get("counted_steps", at.env_steps))
        at.optimizer_steps = int(note.get("optimizer_steps", 0))
        if refusal:
            return Adoption(
                record.version, copy(at.base), f"began with v{record.version}: {refusal}"
            )
        waiting = [d for n, d in unmerged.items() if n > record.consumed.get(author, [0])[0]]
        at.anchor = add(at.base, *waiting)
        if record.version == base.version and len(waiting) == len(unmerged):
            return Adoption(record.version, own, f"resumed on v{record.version}")
        since = difference(own, add(old_state, *unmerged.values()))
        return Adoption(
            record.version,
            add(at.anchor, since),
            f"resumed from v{base.version}, rebased on v{record.version}",
        )

    def _why_not_resume(self, record: Version, note: Mapping[str, object], author: str) -> str:
        if note["run_id"] != self._run_id:
            return "the checkpoint belongs to another run of shared weights"
        lag = record.version - int(str(note["version"]))
        if lag > self._settings.max_staleness:
            return f"the checkpoint's base is {lag} versions old"
        folder = self._store.paths.peer(self._peer, str(note["incarnation"]))
        published = max((number for number, _ in offers.sequences(folder)), default=0)
        judged = record.consumed.get(author, [0])[0]
        if max(published, judged) > int(str(note["sequence"])):
            return "what came after the checkpoint was published already"
        return ""

    # -- publishing

    def _publish(self, own: StateDict, env_steps: int, optimizer_steps: int) -> str:
        at = self._at
        steps, updates = env_steps - at.env_steps, optimizer_steps - at.optimizer_steps
        if steps <= 0 or updates <= 0:
            return "nothing to publish: no step since the last contribution"
        if not is_finite(own):
            return "not published: the weights are not finite"
        delta = difference(own, at.anchor)
        data = encode(delta)
        sha = self._store.put_blob(data, "contribution-blob")
        self._store.durable.hook("C6")
        offer = Contribution(
            run_id=self._run_id,
            schema=self._schema,
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=at.sequence + 1,
            blob=sha,
            size=len(data),
            base_version=at.version,
            base_state=at.base_state,
            env_steps=steps,
            new_steps=max(0, env_steps - max(at.counted_steps, at.env_steps)),
            optimizer_steps=updates,
        )
        offers.publish(self._store, offer)
        self._store.durable.hook("C7")
        at.sequence, at.env_steps, at.optimizer_steps = offer.sequence, env_steps, optimizer_steps
        at.counted_steps = max(at.counted_steps, env_steps)
        at.unmerged[offer.sequence], at.blobs[offer.sequence] = delta, sha
        at.anchor = own
        self._measure_period()
        return f"published contribution {offer.sequence} on v{at.version} ({steps} steps)"

    def _measure_period(self) -> None:
        """A contribution waits for others at most about one of our own sync periods."""
        now = self._clock.monotonic()
        if self._last_publish is not None:
            self._period_s = min(self._settings.period_s, now - self._last_publish)
        self._last_publish = now

    def _merge(self) -> None:
        record, _ = self._merger.try_merge(self._period_s)
        if record is not None:
            self._tell("state", {
                "state": "merged",
                "version": record.version,
                "inputs": [f"{one.peer}/{one.sequence}" for one in record.inputs],
                "refused": [f"{one.peer}/{one.sequence}: {one.reason}" for one in record.refused],
            })  # fmt: skip

    # -- adopting

    def _adopt_newest(self, own: StateDict) -> Adoption | None:
        at = self._at
        record, state = self._load_newest()
        if record.version <= at.version:
            return None
        since = difference(own, at.anchor)
        reason = f"adopted v{record.version}"
        kept: dict[int, StateDict] = {}
        if self._fate_of_mine(record, kept, since) and is_finite(since):
            reason += ", rebased"
        else:
            since, reason = {name: one * 0 for name, one in state.items()}, f"{reason} as it is"
        at.version, at.base_state, at.base = record.version, record.state, state
        at.unmerged, at.blobs = kept, {number: at.blobs[number] for number in kept}
        at.anchor = add(state, *kept.values())
        self._beat(left=False)
        self._heal(record, state)
        return Adoption(record.version, add(at.anchor, since), reason)

    def _fate_of_mine(
        self, newest: Version, kept: dict[int, StateDict], since: StateDict
    ) -> bool:
        """Fill ``kept`` with deltas still pending; add late ones to ``since``; False: drop it all."""
        judged = newest.consumed.get(f"{self._peer}/{self._incarnation}", [0])[0]
        refusals = self._refusals(newest)
        good = True
        for number, delta in self._at.unmerged.items():
            if number > judged:
                kept[number] = delta
            elif number in refusals:
                fault, reason = refusals[number]
                self._tell("state", {"state": "refused", "sequence": number, "reason": reason})
                if fault == "values":
                    good = False
                else:
                    since.update(add(since, delta))
        return good

    def _refusals(self, newest: Version) -> dict[int, tuple[str, str]]:
        """Our refused contributions between our base and ``newest``."""
        found = {}
        for number in range(max(self._at.version + 1, newest.version - 255), newest.version + 1):
            for one in self._store.version(number).refused:
                if (one.peer, one.incarnation) == (self._peer, self._incarnation):
                    found[one.sequence] = (one.fault, one.reason)
        return found

    # -- signs of life

    def _beat(self, *, left: bool, notes: Mapping[str, object] | None = None) -> None:
        self._beats += 1
        version = 0 if self._progress is None else self._progress.version
        pulse = Pulse(self._peer, self._incarnation, self._beats, version, left)
        offers.beat(self._store, pulse, {"host": host_name(), **(notes or {})})

    def _tell(self, event: str, data: Mapping[str, object]) -> None:
        try:
            self._events.write(event, self.fleet_steps(), data)
        except (OSError, DaddyError, ValueError):  # a full disk must not stop training
            return
