"""A laptop's errand: plays the newest version and the one before it from the run's fixed starts.

Both play the same start with the same dice, so that the difference of their returns is of the
weights. Takes a bounded share of the time, works on copies of what was pulled, and stops within a
step when asked to. Each pair is told; with a sender it is handed in too, a record each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.core.clock import Clock
from Daddy.core.files import write_atomic
from Daddy.core.intervals import of_mean
from Daddy.core.settings import Config
from Daddy.errands.errand import Sender
from Daddy.weights.laptop.pulled_version import PREVIOUS, read_frame, read_version
from Daddy.weights.revert.evaluations import PAIRS_LIMIT, Evaluation, Pair, box_file, fixed_starts
from Daddy.weights.store.records import Keyframe
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    import gymnasium

    from Daddy.learning.agent import Agent

SHARE = 0.2
"""Of the time: what playing a pair took, four times as long nothing is played."""
MOST_PAIRS = 12
"""Of two versions; then come the newest two."""

Tell = Callable[[Mapping[str, object]], None]


@dataclass
class Match:
    """Two versions against each other: what is held of them, and the pairs so far."""

    newer: Keyframe
    older: Keyframe
    agents: tuple[Agent, Agent]
    pairs: list[Pair] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether enough has been played."""
        return len(self.pairs) >= MOST_PAIRS

    def told(self) -> dict[str, object]:
        """The mean difference and its 95 % interval, None where one pair says nothing of it."""
        found = of_mean([ours - theirs for _, ours, theirs in self.pairs])
        known = len(self.pairs) > 1
        return {
            "state": "evaluated",
            "version": self.newer.version,
            "reference": self.older.version,
            "starts": len(self.pairs),
            "mean": found.middle,
            "low": found.low if known else None,
            "high": found.high if known else None,
        }


class Referee:
    """For one laptop process. `stopping` is asked before every step. Not for several threads."""

    def __init__(
        self, local: Path, config: Config, sender: Sender | None, clock: Clock, tell: Tell,
        stopping: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._local, self._sender, self._clock, self._tell = local, sender, clock, tell
        self._stopping = stopping
        alone = config.archive.model_copy(update={"mode": "off"})
        self._config = config.model_copy(update={"archive": alone})
        self._steps = config.training.episode_steps
        self._match: Match | None = None
        self._env: gymnasium.Env[Any, Any] | None = None
        self._played, self._free_at = 0, 0.0

    def once(self) -> None:
        """Play one pair, if it is time and there are two versions. WeightsError, OSError."""
        begun = self._clock.monotonic()
        if begun < self._free_at:
            return
        match = self._match_now()
        if match is None:
            return
        start = self._start(match)
        ours, theirs = (self._return_of(agent, start) for agent in match.agents)
        pair = (start, ours, theirs)
        took = self._clock.monotonic() - begun
        self._free_at = begun + took / SHARE
        if self._stopping():
            return
        match.pairs.append(pair)
        self._played += 1
        self._tell(match.told())
        if self._sender is not None:
            self._hand_in(match, pair, self._sender)

    def close(self) -> None:
        """End the game."""
        if self._env is not None:
            self._env.close()  # type: ignore[no-untyped-call]

    def _match_now(self) -> Match | None:
        """The two that are being compared, or the newest two; None while there is only one."""
        newer = read_frame(self._local / "wan" / "HEAD.json")
        if self._match is not None and newer is not None:
            same_run = self._match.newer.run_id == newer.run_id
            if same_run and (not self._match.over or self._match.newer.version == newer.version):
                return None if self._match.over else self._match
        older = read_frame(self._local / "wan" / PREVIOUS)
        if newer is None or older is None or newer.run_id != older.run_id:
            return None
        if older.version >= newer.version:
            return None
        self._match = Match(newer, older, (self._agent(newer), self._agent(older)))
        return self._match

    def _game(self) -> gymnasium.Env[Any, Any]:
        if self._env is None:
            self._env = WORKLOADS[self._config.training.workload].make_env(self._config)()
        return self._env

    def _agent(self, frame: Keyframe) -> Agent:
        from Daddy.learning.agent import agent_of
        from Daddy.weights.encoding.state_codec import decode

        game, row = self._game(), WORKLOADS[self._config.training.workload]
        policy = row.make_policy(game.observation_space, game.action_space)  # type: ignore[arg-type]
        weights = decode(read_version(self._local, frame).data, frame.schema)
        return agent_of(policy, weights, f"v{frame.version}")

    def _start(self, match: Match) -> int:
        """The next of the run's starts; laptops begin at different ones."""
        starts = fixed_starts(match.newer.run_id, PAIRS_LIMIT)
        first = int(self._sender.incarnation, 16) if self._sender is not None else 0
        return starts[(first + self._played) % len(starts)]

    def _return_of(self, agent: Agent, start: int) -> float:
        """The return of one episode; whatever it is so far when we are to stop."""
        game, total = self._game(), 0.0
        observation, _ = game.reset(seed=start)
        agent.begin(start)
        for _ in range(self._steps):
            if self._stopping():
                break
            observation, reward, won, late, _ = game.step(agent.act(observation))
            total += float(reward)
            if won or late:
                break
        return total

    def _hand_in(self, match: Match, pair: Pair, sender: Sender) -> None:
        done = Evaluation(
            run_id=match.newer.run_id,
            peer=sender.peer,
            incarnation=sender.incarnation,
            sequence=self._played,
            version=match.newer.version,
            state=match.newer.state,
            reference=match.older.version,
            reference_state=match.older.state,
            pairs=(pair,),
            episode_steps=self._steps,
        )
        write_atomic(self._local / "outbox" / sender.peer / box_file(done), done.to_bytes())
