"""A laptop that only plays: implements the learner's WeightExchange port over pulled versions.

Takes nothing but complete, verified versions, says which, and offers nothing. A damaged newer
version is said once and passed over; playing goes on with the one at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import WeightsError
from Daddy.weights.codec import decode, schema_of
from Daddy.weights.local import Verified, newest_verified, read_frame
from Daddy.weights.polyak import StateDict


@dataclass(frozen=True, slots=True)
class Taken:
    """A version taken over: its number, its weights, and why."""

    version: int
    weights: StateDict
    reason: str


class PulledVersions:
    """The newest verified version below one folder, again and again."""

    def __init__(
        self,
        shared_dir: Path,
        plays: Callable[[Verified], None],
        complain: Callable[[str], None],
    ) -> None:
        """``plays`` hears of each version that is taken, ``complain`` of each that cannot be."""
        self._shared_dir = shared_dir
        self._plays = plays
        self._complain = complain
        self._complaint = ""
        self._schema = ""
        self._version = -1
        self._fleet_steps = 0

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Taken:
        """The newest version; WeightsError when there is none or it fits another policy."""
        self._schema = schema_of(initial())
        found = newest_verified(self._shared_dir)
        if found is None:
            raise WeightsError(
                f"no version of the weights is in {self._shared_dir}",
                "pull first: ./Daddy/cluster/sync_weights.sh pull",
            )
        return self._take(found)

    def adopt(self, weights: StateDict) -> Taken | None:
        """A newer version, if one was pulled completely."""
        try:
            frame = read_frame(self._shared_dir / "wan" / "HEAD.json")
            if frame is None or frame.version <= self._version:
                return None
            found = newest_verified(self._shared_dir)
            return self._take(found) if found and found.version > self._version else None
        except WeightsError as error:
            self._say(error.message)
            return None

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Nothing is learnt here, so nothing is offered."""
        return "nothing published: this laptop only plays"

    def fleet_steps(self) -> int:
        """Environment steps of all contributors in the version at hand."""
        return self._fleet_steps

    def bookkeeping(self) -> bytes:
        """Nothing needs to be remembered."""
        return b""

    def _take(self, found: Verified) -> Taken:
        weights = decode(found.data, self._schema)
        if found.warning:
            self._say(found.warning)
        self._version, self._fleet_steps = found.version, found.frame.fleet_steps
        self._plays(found)
        return Taken(found.version, weights, f"pulled v{found.version}")

    def _say(self, text: str) -> None:
        if text != self._complaint:
            self._complain(text)
        self._complaint = text
