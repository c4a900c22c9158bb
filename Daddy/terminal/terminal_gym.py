"""The environment of a terminal task, with the interface of Gym but asynchronous.

An action types keys, the observation is the screen, and the reward comes from the task's verifier
at the end of the episode.
"""

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import UsageError
from Daddy.core.name_validation import new_token
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.terminal.episode_records import EpisodeRecords
from Daddy.terminal.reward_files import EpisodeGrade, ReduceBy
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes, open_terminal_backend
from Daddy.terminal.tmux_session import TerminalGoneError, TmuxSession
from Daddy.terminal.verifier import Verifier


@dataclass(frozen=True)
class TerminalAction:
    """Keys to type: text, in which a line end is Enter, or names of keys (``C-x``, ``Escape``).

    With `block` a step ends with its command, else when the screen is unchanged for two looks, and
    not before `min_timeout_sec`; both end after `max_timeout_sec`. `done` ends the episode.
    """

    keys: str = ""
    block: bool = True
    min_timeout_sec: float = 0.0
    max_timeout_sec: float = 180.0
    done: bool = False


class StepResult(NamedTuple):
    """The result of a step. `reward` is 0.0 until `done`, and None for a dropped episode."""

    obs: str
    reward: float | None
    done: bool
    info: dict[str, Any]


class AsyncTerminalGymEnv:
    """One terminal; `reset` begins an episode, whose records lie in a new folder of `runs_dir`.

    `environment` is the name of a backend, or one that is open. `delete_env=False` keeps the
    agent's changes as ``changes.tar`` beside the records. Raises ConfigError for the task.
    """

    def __init__(
        self,
        task_dir: Path | str,
        environment: str | BubblewrapBackend = "auto",
        runs_dir: Path | str = "runs/terminal",
        force_build: bool = False,
        delete_env: bool = True,
        tmux_pane_width: int = 160,
        tmux_pane_height: int = 40,
        reward_key: str | None = None,
        reward_reduce: ReduceBy = "sum",
        *,
        image: str = "",
        sandboxes: TaskSandboxes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._runs, self._clock = Path(runs_dir), clock or SystemClock()
        self._size = (tmux_pane_width, tmux_pane_height)
        self._force_build, self._delete = force_build, delete_env
        if sandboxes is None:
            backend = environment
            if isinstance(backend, str):
                backend, _ = open_terminal_backend(backend)
            task = read_task(Path(task_dir))
            sandboxes = TaskSandboxes(task, backend, self._runs / "layers", image)
        self._sandboxes, self.task = sandboxes, sandboxes.task
        self._verifier = Verifier(sandboxes, reward_key, reward_reduce)
        self._sandbox: RunnerSandbox | None = None
        self._verdict: EpisodeGrade | None = None

    async def reset(self) -> tuple[str, dict[str, Any]]:
        """Begin an episode; return the instruction with the screen, and facts about it."""
        await self.close()
        await self._sandboxes.build(force=self._force_build)
        self._force_build = False
        folder = self._runs / f"{self.task.name}-{new_token()}"
        self._records = EpisodeRecords(folder, self.task.name, *self._size, self._clock)
        self._ends_at = self._clock.monotonic() + self.task.settings.agent.timeout_sec
        self._verdict = None
        self._sandbox = await self._sandboxes.open()
        self._session = TmuxSession(self._sandbox, self._sandboxes, *self._size, self._clock)
        screen = await self._session.start()
        self._records.add_screen(screen)
        facts = {"task": self.task.name, "folder": str(folder), "image": self._sandboxes.image}
        return f"{self.task.instruction.strip()}\n\n{screen}", facts

    async def step(self, action: TerminalAction) -> StepResult:
        """Type the action's keys. The last step, by `done` or at the agent's time, is graded."""
        self._require_episode(graded=False)
        left = max(0.0, self._ends_at - self._clock.monotonic())
        obs = ""
        try:
            max_s = min(action.max_timeout_sec, left)
            obs = await self._session.type(
                action.keys, block=action.block, min_s=action.min_timeout_sec, max_s=max_s
            )
        except TerminalGoneError as error:
            self._verdict = EpisodeGrade(0.0, error.message)
        if action.done or self._clock.monotonic() >= self._ends_at:
            await self._grade()
        verdict = self._verdict
        reward = verdict.reward if verdict else 0.0
        self._records.add_step(asdict(action), obs, reward=reward, ended=verdict is not None)
        if verdict:
            self._record_result(verdict)
        return StepResult(obs, reward, verdict is not None, self._info())

    async def verify(self) -> float | None:
        """Grade the episode, once; return its reward, or None if it is dropped."""
        verdict = await self._grade()
        self._record_result(verdict)
        return verdict.reward

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host into the terminal's sandbox."""
        await self._require_episode().put(source, target)

    async def render(self) -> str:
        """Return the screen; nothing once the terminal has ended."""
        with contextlib.suppress(TerminalGoneError):
            return await self._session.read_screen() if self._sandbox and not self._verdict else ""
        return ""

    async def close(self) -> None:
        """End the episode and its sandbox. A second call does nothing."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox:
            await sandbox.close()

    @property
    def reason(self) -> str:
        """The reason of the episode's reward."""
        return self._verdict.reason if self._verdict else ""

    def end_with_zero(self, reason: str) -> StepResult:
        """End the episode with reward 0, without its verifier: the agent broke a rule."""
        self._verdict = self._verdict or EpisodeGrade(0.0, reason)
        self._record_result(self._verdict)
        return StepResult("", self._verdict.reward, True, self._info())

    def _require_episode(self, *, graded: bool = True) -> RunnerSandbox:
        """Return the episode's sandbox. UsageError if there is none, or one that is `graded`."""
        if self._sandbox is None or (self._verdict and not graded):
            raise UsageError("no episode goes on in this terminal", "call reset first")
        return self._sandbox

    async def _grade(self) -> EpisodeGrade:
        sandbox = self._require_episode()
        if self._verdict is None:
            try:
                self._verdict = await self._verifier.grade(sandbox, self._records.folder)
            finally:
                if self._delete:
                    (self._records.folder / "changes.tar").unlink(missing_ok=True)
        return self._verdict

    def _record_result(self, verdict: EpisodeGrade) -> None:
        self._records.write_result(
            task=self.task.name,
            image=self._sandboxes.image,
            isolation=self._sandboxes.isolation,
            verifier="in place" if self.task.in_place else "fresh",
            **asdict(verdict),
        )

    def _info(self) -> dict[str, Any]:
        verdict = self._verdict
        return {"steps": self._records.steps, **(asdict(verdict) if verdict else {})}
