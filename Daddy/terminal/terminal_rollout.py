"""Plays the episodes of a batch: all live ones get their replies at once, then type at once.

An episode whose sandbox fails has no reward: it is dropped, and the others go on. A reply that
breaks the format, or a chat that leaves no room for a reply in the model's context, ends its
episode with reward 0.
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
from Daddy.grpo.chat_tokens import ChatTokens, SampledTokens, TokenEpisode
from Daddy.terminal.agents import FORMAT, LEAST_S
from Daddy.terminal.task_sandboxes import TaskSandboxes
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, TerminalAction
from Daddy.terminal.terminus_reply import TerminusReply, parse_reply

KEPT_BATCHES = 10
"""The newest batches whose episodes' records are kept."""
Sampler = Callable[[Sequence[Sequence[int]]], Sequence[SampledTokens]]


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
        seats = [_Seat(self._sandboxes[name], self._limits, runs, tokens) for name in names]
        began, sampling = self._clock.monotonic(), 0.0
        try:
            self._wait(_all(seat.begin() for seat in seats))
            while live := [seat for seat in seats if seat.episode.live]:
                asked = self._clock.monotonic()
                replies = sample([seat.episode.ids for seat in live])
                sampling += self._clock.monotonic() - asked
                pairs = zip(live, replies, strict=True)
                self._wait(_all(seat.answer(reply) for seat, reply in pairs))
        finally:
            self._wait(_all(seat.close() for seat in seats))
        whole = self._clock.monotonic() - began
        seconds = {"sampling_seconds": sampling, "terminal_seconds": whole - sampling}
        return [seat.episode for seat in seats], seconds


class _Seat:
    """One terminal and its episode."""

    def __init__(
        self, sandboxes: TaskSandboxes, limits: EpisodeLimits, runs: Path, tokens: ChatTokens
    ) -> None:
        self.episode = TerminalEpisode(task=sandboxes.task.name)
        self._limits, self._tokens = limits, tokens
        self._env = AsyncTerminalGymEnv(
            sandboxes.task.folder,
            runs_dir=runs,
            tmux_pane_width=limits.columns,
            tmux_pane_height=limits.rows,
            sandboxes=sandboxes,
        )

    async def begin(self) -> None:
        """Begin the episode: its prompt is the instruction with the screen."""
        try:
            obs, _ = await self._env.reset()
        except DaddyError as error:
            self.episode.end(None, error.message)
            return
        text = f"{FORMAT}\n\n{obs}" if self._limits.shows_format else obs
        self.episode.prompt_ids = self._tokens.begin(text)
        self._check_length()

    async def answer(self, sampled: SampledTokens) -> None:
        """Type a reply's commands; the screen after them is the next prompt."""
        episode = self.episode
        episode.add_sampled(sampled)
        episode.turns += 1
        episode.parsed += sampled.ended
        try:
            if not sampled.ended:
                raise ValueError("it has no end within its length limit")
            reply = parse_reply(self._tokens.decode(sampled.ids))
        except ValueError as error:
            self._end_with_zero(f"a reply broke the format: {error}")
            return
        episode.in_format += 1
        episode.commands += len(reply.commands)
        try:
            obs = await self._type(reply)
        except DaddyError as error:
            episode.end(None, error.message)
            return
        if episode.live:
            episode.add_observed(self._tokens.follow(obs))
            self._check_length()

    async def close(self) -> None:
        """End the sandbox."""
        await self._env.close()

    async def _type(self, reply: TerminusReply) -> str:
        actions = [
            TerminalAction(command.keys, max_timeout_sec=max(command.duration_s, LEAST_S))
            for command in reply.commands
        ]
        if reply.task_complete or self.episode.turns == self._limits.max_turns:
            actions.append(TerminalAction(done=True))
        for action in actions:
            result = await self._env.step(action)
            if result.done:
                self.episode.end(result.reward, self._env.reason)
                return ""
        return result.obs if actions else await self._env.render()

    def _check_length(self) -> None:
        if len(self.episode.ids) > self._limits.context - self._limits.reply_tokens:
            self.episode.too_long = True
            self._end_with_zero("the chat is longer than the model's context")

    def _end_with_zero(self, reason: str) -> None:
        self._env.end_with_zero(reason)
        self.episode.end(0.0, reason)


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
