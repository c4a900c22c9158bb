"""Grades an episode in a fresh sandbox made of the agent's files, unless the task asks for shared.

No process of the agent lives in a fresh one, and /tests and /logs/verifier are new. A task's
``tests/exercise.sh`` runs what the agent left in a further sandbox, which has no tests and no
reward; its output is ``/logs/verifier/exercise.txt`` for the verifier. In the shared one, which is
the agent's own, its processes live on and can forge the reward.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from Daddy.core.atomic_files import write_atomic, write_new
from Daddy.core.errors import CopyFailedError, DaddyError, SandboxError
from Daddy.core.name_validation import new_token
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import MIB, Outcome
from Daddy.terminal.episode_records import make_harmless
from Daddy.terminal.reward_files import EpisodeGrade, ReduceBy, read_rewards
from Daddy.terminal.task_sandboxes import VERIFIER_MB, TaskSandboxes

_RENEW: Final = """
[ -L /logs ] && rm /logs
rm -rf /tests /logs/verifier && mkdir -p /logs/verifier
"""
_EXERCISE = "exercise.sh"
_SHELL = ("sh", "-c", 'cd "$0" 2>/dev/null; exec bash --noprofile --norc "$1"')
"""Runs a script in the task's folder, if the agent left one."""
_LOGS_MB = 16


class Verifier:
    """Grades episodes of one task. `reward_key` and `reduce_by`: see `read_rewards`."""

    def __init__(
        self, sandboxes: TaskSandboxes, reward_key: str | None = None, reduce_by: ReduceBy = "sum"
    ) -> None:
        self._sandboxes, self._task = sandboxes, sandboxes.task
        self._key, self._reduce_by = reward_key, reduce_by
        self._time_s = self._task.settings.verifier.timeout_sec

    async def grade(self, agent: RunnerSandbox, folder: Path) -> EpisodeGrade:
        """Grade the agent's sandbox; keep what is read in `folder`.

        Its processes end, unless the task asks to be graded beside them.

        A verifier that fails gives no reward: the verdict's is None. Files that cannot be carried
        give 0, else an agent could choose to be dropped.
        """
        try:
            if self._task.in_place:
                return await self._grade_in_place(agent, folder)
            return await self._grade_apart(agent, folder)
        except CopyFailedError as error:
            return EpisodeGrade(0.0, f"the agent's files could not be carried: {error.message}")
        except DaddyError as error:
            return EpisodeGrade(None, f"it could not be graded: {error.message}")

    async def _grade_in_place(self, agent: RunnerSandbox, folder: Path) -> EpisodeGrade:
        await self._run(agent, "sh", "-c", _RENEW)
        verdict = await self._run_tests(agent, folder)
        return EpisodeGrade(verdict.reward, verdict.reason, verdict.rewards, forgeable=True)

    async def _grade_apart(self, agent: RunnerSandbox, folder: Path) -> EpisodeGrade:
        changes = folder / "changes.tar"
        most = self._sandboxes.limits(0).scratch_mb * MIB * 2
        with _held_against_the_agent():
            saved = await agent.save_changes(changes, most)
        if not saved:
            return EpisodeGrade(0.0, f"the agent's files are larger than {most // MIB} MB")
        answers = await self._exercise(changes)
        async with self._opened(changes, self._task.settings.artifacts) as sandbox:
            if answers is not None:
                await self._put_answers(sandbox, answers, folder / "exercise.txt")
            return await self._run_tests(sandbox, folder)

    async def _put_answers(self, sandbox: RunnerSandbox, answers: bytes, record: Path) -> None:
        write_new(record, answers)
        try:
            await sandbox.put(record, "/logs/verifier/exercise.txt")
        finally:
            write_atomic(record, _harmless(answers))

    async def _exercise(self, changes: Path) -> bytes | None:
        """Return what the task's exercise prints in a sandbox that has nothing to forge."""
        source = self._task.folder / "tests" / _EXERCISE
        if not source.is_file():
            return None
        async with self._opened(changes) as sandbox:
            script = f"/{new_token()}.sh"  # no folder of the agent's, which may be a link
            await sandbox.put(source, script)
            with _held_against_the_agent():
                return (await self._run_script(sandbox, script)).stdout

    @contextlib.asynccontextmanager
    async def _opened(
        self, changes: Path, only: tuple[str, ...] = ()
    ) -> AsyncIterator[RunnerSandbox]:
        sandbox = await self._sandboxes.open_verifier(changes, only)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def _run_tests(self, sandbox: RunnerSandbox, folder: Path) -> EpisodeGrade:
        await sandbox.put(self._task.folder / "tests", "/tests")
        outcome = await self._run_script(sandbox, "/tests/test.sh")
        write_new(folder / "verifier.txt", _harmless(outcome.stdout + outcome.stderr))
        if outcome.ending != "exited":
            return EpisodeGrade(
                None, f"the verifier {outcome.ending} after {outcome.seconds:.0f} s"
            )
        logs = folder / "verifier"
        await sandbox.get("/logs/verifier", logs, _LOGS_MB * MIB)
        text, table = (_read(logs / name) for name in ("reward.txt", "reward.json"))
        return read_rewards(text, table, self._key, self._reduce_by)

    async def _run_script(self, sandbox: RunnerSandbox, path: str) -> Outcome:
        return await self._run(sandbox, *_SHELL, self._task.recipe.folder, path)

    async def _run(self, sandbox: RunnerSandbox, *argv: str) -> Outcome:
        env = {"PYTHONNOUSERSITE": "1", **self._task.settings.verifier.env}
        limits = self._sandboxes.limits(self._time_s, VERIFIER_MB)
        return await sandbox.run(self._sandboxes.command(*argv, env=env), limits)


@contextlib.contextmanager
def _held_against_the_agent() -> Iterator[None]:
    """Turn the end of a sandbox into a failure of the agent, whose code there may end it."""
    try:
        yield
    except SandboxError as error:
        raise CopyFailedError(error.message) from error


def _harmless(output: bytes) -> bytes:
    return make_harmless(output.decode(errors="replace")).encode()


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
