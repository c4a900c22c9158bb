"""A job's part in probation: one pair after the other, from starts that nobody has played yet.

Knows no game: who plays is passed in. Each pair is written down at once, so that all jobs' pairs
add up and nothing is lost when a job ends.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from Daddy.core.errors import WeightsError
from Daddy.core.seeds import seed_for
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.polyak import StateDict
from Daddy.weights.records.sequential import MOST_PAIRS
from Daddy.weights.revert.evaluations import (
    Evaluation,
    evaluations_of_jobs,
    fixed_starts,
    write_evaluation,
)
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store

PlayPair = Callable[[StateDict, StateDict, int], tuple[float, float]]
"""From the weights of a version, those of the older one and a start seed to both returns."""


class Examiner:
    """Plays for one process of one job; ``episode_steps`` is the longest episode of ``play``."""

    def __init__(
        self, store: Store, peer: str, incarnation: str, episode_steps: int, play: PlayPair
    ) -> None:
        self._store = store
        self._peer, self._incarnation = peer, incarnation
        self._episode_steps = episode_steps
        self._play = play
        self._written = 0
        self._loaded: tuple[str, str] = ("", "")
        self._states: tuple[StateDict, StateDict] = ({}, {})

    def examine(self) -> Evaluation | None:
        """Play one pair and write it down; None when there is nothing to play.

        WeightsError when one of the two states is gone; OSError, FileError of the disk.
        """
        number = self._store.newest()
        if number is None or not (head := self._store.version(number)).probation.trial:
            return None
        start = self._start(head)
        if start is None:
            return None
        trial = self._store.version(head.probation.trial)
        good = self._store.version(head.probation.good)
        self._load(trial, good)
        ours, theirs = self._play(*self._states, start)
        if not (isfinite(ours) and isfinite(theirs)):
            raise WeightsError(f"a return from start {start} is not finite", "look at the rewards")
        self._written += 1
        done = Evaluation(
            run_id=head.run_id,
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=self._written,
            version=trial.version,
            state=trial.state,
            reference=good.version,
            reference_state=good.state,
            pairs=((start, float(ours), float(theirs)),),
            episode_steps=self._episode_steps,
        )
        write_evaluation(self._store, done)
        return done

    def _start(self, head: Version) -> int | None:
        """A start that no job has played for this probation: each job begins elsewhere."""
        starts = fixed_starts(head.run_id, MOST_PAIRS)
        first = seed_for(0, self._peer, "first start") % len(starts)
        played = {
            seed
            for _, one in evaluations_of_jobs(self._store)
            if (one.version, one.reference) == (head.probation.trial, head.probation.good)
            for seed, _, _ in one.pairs
        }
        return next((one for one in starts[first:] + starts[:first] if one not in played), None)

    def _load(self, trial: Version, good: Version) -> None:
        if self._loaded != (wanted := (trial.state, good.state)):
            ours, theirs = (self._store.get_blob(sha) for sha in wanted)
            self._states = (decode(ours, trial.schema), decode(theirs, good.schema))
            self._loaded = wanted
