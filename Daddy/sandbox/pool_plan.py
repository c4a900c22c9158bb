"""Pure. Decides the next step of a pool of sandboxes, the pace of creation, and reuse.

`plan_step` tells whether the pool hands out a sandbox, makes one, gives up or waits;
`CreationPace` paces creation; `decide_reuse` and `lives_long_enough` tell which sandbox is used
again.
"""

from dataclasses import dataclass, replace
from typing import Literal

MOST_AT_ONCE = 8
"""Sandboxes in creation at once: on a small machine more of them only slow each other down."""
FAILURES = 3
"""Failed creations in a row, after which the waiting callers get the error."""
GIVE_UP_S = 600.0
"""Longest time without any sandbox in which a backend's refusals are waited out."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 60.0
LONGEST_RETRY_AFTER_S = 900.0
"""Longest wait that a backend may ask for."""
YOUNG_S = 1.0
"""Age up to which a sandbox is as good as a new one would be."""


@dataclass(frozen=True)
class CreationPace:
    """Tells how many sandboxes may be in creation at once, and from when on."""

    at_once: int = MOST_AT_ONCE
    resume_at: float = 0.0
    failures: int = 0
    refusals: int = 0
    refused_since: float = 0.0

    def after_success(self) -> "CreationPace":
        """Allow one creation more at once."""
        return CreationPace(at_once=min(MOST_AT_ONCE, self.at_once + 1), resume_at=self.resume_at)

    def after_failure(self, began: float, now: float) -> "CreationPace":
        """Wait, twice as long after each failure in a row.

        A creation that began before the last wait tells nothing new.
        """
        if began < self.resume_at:
            return self
        return replace(self, failures=self.failures + 1, resume_at=now + _doubled(self.failures))

    def after_refusal(
        self, began: float, now: float, retry_after_s: float | None
    ) -> "CreationPace":
        """Wait as long as the backend asks for, then with half as many creations at once."""
        wait_s = _doubled(self.refusals) if retry_after_s is None else retry_after_s
        resume_at = max(self.resume_at, now + min(max(0.0, wait_s), LONGEST_RETRY_AFTER_S))
        if began < self.resume_at:
            return replace(self, resume_at=resume_at)
        return replace(
            self,
            at_once=max(1, self.at_once // 2),
            resume_at=resume_at,
            refusals=self.refusals + 1,
            refused_since=self.refused_since if self.refusals else now,
        )

    def after_giving_up(self) -> "CreationPace":
        """Let the next caller try again, not before the wait is over."""
        return replace(self, failures=0, refusals=0)


def _doubled(times: int) -> float:
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(times, 16))


@dataclass(frozen=True)
class PoolState:
    """Counts callers and sandboxes of a pool.

    `ending` are those that are being closed: they still take a place. `warm` sandboxes
    are kept ready without a caller.
    """

    size: int
    warm: int = 0
    waiting: int = 0
    idle: int = 0
    leased: int = 0
    creating: int = 0
    ending: int = 0

    @property
    def live(self) -> int:
        """Count the sandboxes that exist or may exist."""
        return self.idle + self.leased + self.creating + self.ending


@dataclass(frozen=True)
class PoolStep:
    """Tells what a pool does now, why it gives up, and after which seconds it asks again.

    0 seconds: on a change.
    """

    action: Literal["lease", "create", "give up", "wait"]
    again_in_s: float = 0.0
    reason: str = ""


def plan_step(state: PoolState, pace: CreationPace, now: float) -> PoolStep:
    """Return the next step of a pool."""
    if state.waiting and state.idle:
        return PoolStep("lease")
    if state.waiting and not state.live and (why := _give_up_reason(pace, now)):
        return PoolStep("give up", reason=why)
    ready = state.idle + state.leased + state.creating
    if ready >= max(state.warm, state.leased + state.waiting) or state.live >= state.size:
        return PoolStep("wait")
    if pace.resume_at > now:
        return PoolStep("wait", pace.resume_at - now)
    return PoolStep("wait" if state.creating >= pace.at_once else "create")


def _give_up_reason(pace: CreationPace, now: float) -> str:
    if pace.failures >= FAILURES:
        return f"{pace.failures} sandboxes in a row could not be made"
    if pace.refusals and now - pace.refused_since >= GIVE_UP_S:
        return f"the backend has made no sandbox for {now - pace.refused_since:.0f} s"
    return ""


@dataclass
class Usage:
    """Tells how a caller used a sandbox.

    `unfinished` counts calls that failed or were given up; `kept_files`: a `put` that later
    commands would see.
    """

    persistent: bool = False
    unfinished: int = 0
    kept_files: bool = False


def decide_reuse(usage: Usage) -> bool:
    """Return True if nothing is left in a sandbox that its caller gave back."""
    return not (usage.persistent or usage.unfinished or usage.kept_files)


def lives_long_enough(age_s: float, lifetime_s: float, need_s: float) -> bool:
    """Return True if an idle sandbox outlives a command of `need_s`, or no new one would either."""
    return age_s <= max(YOUNG_S, lifetime_s - need_s)
