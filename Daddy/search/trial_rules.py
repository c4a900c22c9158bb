"""Pure. Judges the end of a trial's attempt, and decides when a sweep stops by itself.

A trial is one training with settings of the sampler. Its attempts continue each other from the
newest checkpoint; ranks are the processes that train together (DDP).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from Daddy.core.errors import ExitCode

MOST_ATTEMPTS = 20
"""A trial that was cut off as often as this fails: perhaps it is what ends its machine."""
BREAKER_FAILURES = 3
"""Failures in a row with one cause after which a sweep stops: other settings would fail too."""
_LAST_SHARE = 0.25
"""Share of the steps whose episodes make the score."""
_ENDED_WELL = frozenset({ExitCode.DONE, ExitCode.DRAINED})
_NUMBER = re.compile(r"(?<!exit code )\b\d[\d.,e+-]*")


@dataclass(frozen=True, slots=True)
class Training:
    """The episodes of a trial as (steps of the learner, return), its steps and CPU seconds."""

    episodes: Sequence[tuple[int, float]]
    steps: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an attempt.

    `outcome`: complete, cut off (to be continued), failed, or pruned (by the driver). `repeat`: the
    settings deserve one more try. `fatal`: every other trial would fail too.
    """

    outcome: str
    reason: str
    score: float = math.nan
    cost: float = math.nan
    repeat: bool = False
    fatal: bool = False


def judge_attempt(
    exit_codes: Mapping[int, int | None],
    reasons: Mapping[int, str],
    training: Training,
    attempts: int,
    *,
    stopped: bool = False,
    full_disk: str = "",
) -> Verdict:
    """Return the verdict on an attempt that ended.

    `exit_codes`: of each rank, first end first, None if the rank was lost. `reasons`: the last
    sentence of ranks that wrote one. `attempts`: those of the trial so far. `stopped`: by the
    driver. `full_disk`: the disk's error.
    """
    codes = set(exit_codes.values())
    if codes == {ExitCode.DONE}:
        return _evaluate(training)
    if full_disk:
        return Verdict("cut off", f"the disk is full: {full_disk}", fatal=True)
    if ExitCode.DO_NOT_RESTART in codes:
        return Verdict("failed", f"diverged: {_first_reason(exit_codes, reasons)}", repeat=True)
    if stopped or ExitCode.DRAINED in codes:  # other ranks may take its end for an error
        if attempts < MOST_ATTEMPTS:
            return Verdict("cut off", "it continues from its checkpoint")
        return Verdict("failed", f"cut off {attempts} times")
    return Verdict("failed", _first_reason(exit_codes, reasons))


def _evaluate(training: Training) -> Verdict:
    """Return the mean return of the episodes that ended in the last quarter of the steps."""
    least = (1.0 - _LAST_SHARE) * training.steps
    late = [value for step, value in training.episodes if step >= least]
    returns = late or [value for _, value in training.episodes]
    if not returns:
        return Verdict(
            "failed", f"no episode ended in {training.steps:,} steps: raise trainer.total_timesteps"
        )
    score = sum(returns) / len(returns)
    if not (math.isfinite(score) and math.isfinite(training.cpu_seconds)):
        return Verdict("failed", f"the score is {score}", repeat=True)
    played = f"mean return of {len(returns)} episodes"
    return Verdict("complete", played, score, training.cpu_seconds)


def _first_reason(exit_codes: Mapping[int, int | None], reasons: Mapping[int, str]) -> str:
    """Return the reason of the first rank that ended by itself: the others noticed its end (8)."""
    failed = [rank for rank, code in exit_codes.items() if code not in _ENDED_WELL]
    alone = [rank for rank in failed if exit_codes[rank] != ExitCode.NETWORK]
    first = (alone or failed)[0]
    code = exit_codes[first]
    reason = reasons.get(first) or ("it was lost" if code is None else f"exit code {code}")
    if len(exit_codes) == 1:
        return reason
    noticed = "; ".join(reasons[rank] for rank in failed if rank != first and rank in reasons)
    return f"rank {first}: {reason}" + (f" ({noticed})" if code is None and noticed else "")


def find_breaker(reasons: Sequence[str | None]) -> str:
    """Return the reason to stop after the newest trials, "" to go on.

    `reasons`: of the finished trials, oldest first; None for one that did not fail.
    """
    last = [common_cause(each or "") for each in reasons[-BREAKER_FAILURES:]]
    if len(last) < BREAKER_FAILURES or not last[0] or len(set(last)) > 1:
        return ""
    return f"the last {BREAKER_FAILURES} trials failed for one cause: {reasons[-1]}"


def common_cause(reason: str) -> str:
    """Return a reason without its numbers: they are often settings, steps or seconds."""
    return _NUMBER.sub("N", reason)
