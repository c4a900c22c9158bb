"""Adapter for tinker-cookbook: a terminal task as an environment of its RL loop (extra ``tinker``).

An observation is the chat so far, as the tokens of the cookbook's renderer, and an action the
tokens of a reply in the format terminus-json-plain.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from Daddy.core.errors import SandboxError, needs_extra
from Daddy.terminal.agents import FORMAT, answer
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes, open_terminal_backend
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, TerminalAction

with needs_extra("tinker"):
    import chz
    from tinker import ModelInput
    from tinker_cookbook.completers import StopCondition
    from tinker_cookbook.renderers import Message, Renderer, get_renderer, get_text_content
    from tinker_cookbook.rl.types import (
        Action,
        ActionExtra,
        Env,
        EnvGroupBuilder,
        InitialObservationOverflow,
        Metrics,
        RLDataset,
        RLDatasetBuilder,
        StepResult,
        StopReason,
    )
    from tinker_cookbook.tokenizer_utils import get_tokenizer

CONTEXT_TOKENS: Final = 32_768
RESERVED_TOKENS: Final = 4_096
"""Tokens of the context that are kept for the next reply."""


class HarborTerminalTinkerEnv(Env):  # type: ignore[misc]
    """Plays one episode in `terminal`, which it closes at the end.

    A reply that breaks the format ends the episode with 0; a chat without room for another reply,
    or the agent's time, has it graded. Each step's metrics are parse_success, json_ok,
    num_commands and too_long. Raises SandboxError for an episode that could not be graded, so that
    the cookbook's strategies drop it.
    """

    def __init__(
        self,
        terminal: AsyncTerminalGymEnv,
        renderer: Renderer,
        max_tokens: int = CONTEXT_TOKENS - RESERVED_TOKENS,
    ) -> None:
        self._terminal, self._renderer, self._max_tokens = terminal, renderer, max_tokens
        self._chat: list[Message] = []

    async def initial_observation(
        self,
    ) -> tuple[ModelInput, StopCondition] | InitialObservationOverflow:
        """Begin the episode; return the chat with the task, and the ends of a reply."""
        obs, _ = await self._terminal.reset()
        self._chat = [{"role": "system", "content": FORMAT}, {"role": "user", "content": obs}]
        prompt = await self._render()
        if prompt.length <= self._max_tokens:
            return prompt, self._renderer.get_stop_sequences()
        self._terminal.end_with_zero("the task is longer than the model's context")
        await self.close()
        stopped = {"too_long": 1.0, f"stop/{StopReason.MAX_TOKENS}": 1.0}
        return InitialObservationOverflow(0.0, stopped, self._logs())

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """Type the commands of a reply's tokens; the reward is 0.0 until the episode is done."""
        del extra  # a reply that was cut off has no end
        message, termination = self._renderer.parse_response(action)
        metrics: Metrics = {"parse_success": float(termination.is_clean)}
        metrics |= {"json_ok": 0.0, "num_commands": 0, "too_long": 0.0}
        text, ended = get_text_content(message), termination.is_clean
        reply, result = await answer(self._terminal, text, ended=ended)
        if reply is None:
            return await self._finish(result.reward, StopReason.PARSE_ERROR, metrics)
        metrics |= {"json_ok": 1.0, "num_commands": len(reply.commands)}
        reason = StopReason.COMPLETED if reply.task_complete else StopReason.TOOL_STOPPED
        self._chat += [message, {"role": "user", "content": result.obs}]
        if not result.done:
            prompt = await self._render()
            if prompt.length <= self._max_tokens:
                return StepResult(
                    0.0, False, prompt, self._renderer.get_stop_sequences(), metrics, self._logs()
                )
            result = await self._terminal.step(TerminalAction(done=True))
            reason, metrics["too_long"] = StopReason.CONTEXT_OVERFLOW, 1.0
        return await self._finish(result.reward, reason, metrics)

    async def close(self) -> None:
        """End the episode and its sandbox. A second call does nothing."""
        await self._terminal.close()

    async def _finish(
        self, reward: float | None, reason: StopReason, metrics: Metrics
    ) -> StepResult:
        await self.close()
        if reward is None:
            raise SandboxError(f"the episode is dropped: {self._terminal.reason}")
        stops = self._renderer.get_stop_sequences()
        metrics[f"stop/{reason}"] = 1.0  # the cookbook's loop takes the reason from it
        return StepResult(reward, True, ModelInput.empty(), stops, metrics, self._logs())

    async def _render(self) -> ModelInput:
        return await asyncio.to_thread(self._renderer.build_generation_prompt, self._chat)

    def _logs(self) -> dict[str, str | int | float]:
        return {"reason": self._terminal.reason}


@chz.chz
class HarborSingleTaskRLDatasetBuilder(RLDatasetBuilder):  # type: ignore[misc]
    """Builds the batches of one task, and for evaluation one batch of one episode.

    `model_name` names the tokenizer: on the hub, or a folder. `environment`, `runs_dir` and `image`
    are those of `AsyncTerminalGymEnv`.
    """

    task_dir: str
    model_name: str
    renderer_name: str
    group_size: int = 8
    groups_per_batch: int = 1
    num_batches: int = 100
    environment: str = "auto"
    runs_dir: str = "runs/terminal"
    image: str = ""

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        """Return the two datasets. Raises ConfigError for the task."""
        read_task(Path(self.task_dir))
        evaluated = chz.replace(self, group_size=1, groups_per_batch=1, num_batches=1)
        return SingleTaskDataset(self), SingleTaskDataset(evaluated)


class SingleTaskDataset(RLDataset):  # type: ignore[misc]
    """Batches of equal groups."""

    def __init__(self, settings: HarborSingleTaskRLDatasetBuilder) -> None:
        self._settings = settings

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        del index
        return [SingleTaskGroup(self._settings) for _ in range(self._settings.groups_per_batch)]

    def __len__(self) -> int:
        return self._settings.num_batches


class SingleTaskGroup(EnvGroupBuilder):  # type: ignore[misc]
    """Makes a group of environments of one task; before that it can be pickled."""

    def __init__(self, settings: HarborSingleTaskRLDatasetBuilder) -> None:
        self._settings = settings
        self._made: list[HarborTerminalTinkerEnv] = []

    async def make_envs(self) -> Sequence[Env]:
        """Make the environments; each makes its sandbox when its episode begins."""
        settings = self._settings
        name, tokenizer = settings.model_name, get_tokenizer(settings.model_name)
        renderer = get_renderer(settings.renderer_name, tokenizer, model_name=name)
        backend, _ = await asyncio.to_thread(open_terminal_backend, settings.environment)
        task, runs = read_task(Path(settings.task_dir)), Path(settings.runs_dir)
        sandboxes = TaskSandboxes(task, backend, runs / "layers", settings.image)
        made = [
            HarborTerminalTinkerEnv(
                AsyncTerminalGymEnv(task.folder, runs_dir=runs, sandboxes=sandboxes), renderer
            )
            for _ in range(settings.group_size)
        ]
        self._made += made  # a strategy that tries again makes more
        return made

    async def cleanup(self) -> None:
        """Close all that were made."""
        while self._made:
            await self._made.pop().close()
