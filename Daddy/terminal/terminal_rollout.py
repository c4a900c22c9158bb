"""Plays the episodes of a batch: all live ones get their replies at once, then type at once.

An episode whose sandbox fails has no reward: it is dropped, and the others go on. A reply that
breaks the format ends its episode with reward 0. After its last turn, or when the chat leaves no
room for a reply in the model's context, an episode is graded as it is.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.grpo.chat_tokens import ChatTokens, SampledTokens, Sampler, TokenEpisode
from Daddy.terminal.agents import FORMAT, answer
from Daddy.terminal.task_sandboxes import TaskSandboxes
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, TerminalAction

KEPT_BATCHES = 10
"""The newest batches whose episodes' records are kept."""


@dataclass(frozen=True)
class EpisodeLimits:
    """Limits of an episode: replies, tokens of context with `reply_tokens` for the next, screen.

    `shows_format` puts the format of replies before a task's instruction.
    """

    max_turns: int
    context: int
    reply_tokens: int
    columns: int = 160
    rows: int = 40
    shows_format: bool = True


@dataclass
class TerminalEpisode(TokenEpisode):
    """An episode's tokens and figures; `reward` is None for a dropped one, and until its end."""

    task: str = ""
    reward: float | None = None
    reason: str = ""
    live: bool = True
    turns: int = 0
    parsed: int = 0
    in_format: int = 0
    commands: int = 0
    too_long: bool = False

    def end(self, reward: float | None, reason: str) -> None:
        self.live, self.reward, self.reason = False, reward, reason


class TerminalRollout:
    """Plays batches; their records lie in folders of `folder`, by the number of the batch."""

    def __init__(
        self,
        sandboxes: Mapping[str, TaskSandboxes],
        limits: EpisodeLimits,
        folder: Path,
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
        clock: Clock,
    ) -> None:
        self._sandboxes, self._limits, self._folder = sandboxes, limits, folder
        self._wait, self._clock = wait, clock

    def play(
        self, names: Sequence[str], batch: int, sample: Sampler, tokens: ChatTokens
    ) -> tuple[list[TerminalEpisode], dict[str, float]]:
        """Play an episode of each task; return them, and the seconds of terminals and sampling."""
        shutil.rmtree(self._folder / f"{batch - KEPT_BATCHES:06}", ignore_errors=True)
        runs = self._folder / f"{batch:06}"
        players = [
            _EpisodePlayer(self._sandboxes[name], self._limits, runs, tokens) for name in names
        ]
        began, sampling = self._clock.monotonic(), 0.0
        try:
            self._wait(_all(player.begin() for player in players))
            while live := [player for player in players if player.episode.live]:
                asked = self._clock.monotonic()
                replies = sample([player.episode.ids for player in live])
                sampling += self._clock.monotonic() - asked
                pairs = zip(live, replies, strict=True)
                self._wait(_all(player.answer(reply) for player, reply in pairs))
        finally:
            self._wait(_all(player.close() for player in players))
        whole = self._clock.monotonic() - began
        seconds = {"sampling_seconds": sampling, "terminal_seconds": whole - sampling}
        return [player.episode for player in players], seconds


class _EpisodePlayer:
    """One terminal and its episode."""

    def __init__(
        self, sandboxes: TaskSandboxes, limits: EpisodeLimits, runs: Path, tokens: ChatTokens
    ) -> None:
        self.episode = TerminalEpisode(task=sandboxes.task.name)
        self._limits, self._tokens = limits, tokens
        self._task: asyncio.Task[Any] | None = None
        self._env = AsyncTerminalGymEnv(
            sandboxes.task.folder,
            runs_dir=runs,
            tmux_pane_width=limits.columns,
            tmux_pane_height=limits.rows,
            sandboxes=sandboxes,
        )

    async def begin(self) -> None:
        """Begin the episode: its prompt is the instruction with the screen."""
        await self._finish(self._begin())

    async def answer(self, sampled: SampledTokens) -> None:
        """Type a reply's commands; the screen after them is the next prompt."""
        await self._finish(self._answer(sampled))

    async def close(self) -> None:
        """End the sandbox, and first a part that an interrupt has left unfinished."""
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._env.close()

    async def _finish(self, part: Coroutine[Any, Any, None]) -> None:
        """Do a part of the episode; it is dropped if that fails. Its sandbox ends with it."""
        self._task = asyncio.current_task()
        try:
            await part
        except DaddyError as error:
            self.episode.end(None, error.message)
        if not self.episode.live:
            await self._env.close()

    async def _begin(self) -> None:
        obs, _ = await self._env.reset()
        text = f"{FORMAT}\n\n{obs}" if self._limits.shows_format else obs
        self.episode.prompt_ids = self._tokens.begin(text)
        if not self._has_room():
            result = self._env.end_with_zero("the task is longer than the model's context")
            self.episode.end(result.reward, self._env.reason)

    async def _answer(self, sampled: SampledTokens) -> None:
        episode = self.episode
        episode.add_sampled(sampled)
        episode.turns += 1
        episode.parsed += sampled.ended
        text, last = self._tokens.decode(sampled.ids), episode.turns == self._limits.max_turns
        reply, result = await answer(self._env, text, ended=sampled.ended, last=last)
        if reply:
            episode.in_format += 1
            episode.commands += len(reply.commands)
        if not result.done:
            episode.add_observed(self._tokens.follow(result.obs))
            if self._has_room():
                return
            result = await self._env.step(TerminalAction(done=True))
        episode.end(result.reward, self._env.reason)

    def _has_room(self) -> bool:
        """Tell that the next reply fits; note it in the episode if not."""
        room = self._limits.context - self._limits.reply_tokens
        self.episode.too_long = len(self.episode.ids) > room
        return not self.episode.too_long


async def _all(steps: Any) -> None:
    await asyncio.gather(*steps)


def measure_batch(episodes: Sequence[TerminalEpisode]) -> dict[str, float]:
    """Return the means of a batch's figures: those of replies over replies, others over episodes.

    Dropped episodes count as ``dropped`` alone.
    """
    kept = [episode for episode in episodes if episode.reward is not None]
    turns = max(1, sum(episode.turns for episode in kept))
    return {
        "turns": fmean(episode.turns for episode in kept) if kept else 0.0,
        "parse_success": sum(episode.parsed for episode in kept) / turns,
        "json_ok": sum(episode.in_format for episode in kept) / turns,
        "num_commands": sum(episode.commands for episode in kept) / turns,
        "too_long": sum(episode.too_long for episode in kept) / max(1, len(kept)),
        "dropped": len(episodes) - len(kept),
    }
