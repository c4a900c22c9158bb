"""Drives a sweep: gets settings from the sampler, runs trials, judges them, returns results.

1. Under the sweep's lock, trials that the journal still counts as running are taken up first: the
   driver before us was killed, and their checkpoints are in their folders.
2. A new trial gets a run id and settings; its configuration is written to its folder, and an
   attempt starts on every rank.
3. An attempt that ended is judged from its events. Cut off: it starts again from its checkpoint.
   Complete: score and cost go to the sampler. Failed: the sampler gets no values.
4. The sweep ends after its number of trials, by the breaker, on a full disk, or by a signal; then
   running trials are stopped, and the next driver takes them up.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from Daddy.core.atomic_files import DISK_FULL, find_full_disk, write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, ExitCode
from Daddy.core.load_config import config_to_json, with_values
from Daddy.core.settings import Config
from Daddy.search.local_executor import TrialAttempt
from Daddy.search.search_space import format_value
from Daddy.search.study_plan import StudyPlan, Trial
from Daddy.search.sweep_files import SweepPaths, take_run_id
from Daddy.search.sweep_request import SweepRequest
from Daddy.search.trial_log import TrialLog
from Daddy.search.trial_rules import Training, Verdict, find_breaker, judge_attempt

if TYPE_CHECKING:  # it loads Optuna, which followers do not need
    from Daddy.search.study import Study

_POLL_S, _PROGRESS_S = 0.2, 10.0
SILENT_S = 600.0
"""Seconds without an event after which an attempt is stopped, and continued from its checkpoint:
a learner writes some in each iteration."""
_DISK_BYTES = 1 << 18
"""Room that a small checkpoint needs."""
_RUN_NAME = 41
"""Longest name of a run."""
Record = Callable[[Trial, Training, Verdict], None]


class AttemptExecutor(Protocol):
    """Runs attempts of trials on some machines."""

    def start(self, attempt: TrialAttempt) -> None:
        """Start an attempt."""

    def stop(self, name: str) -> None:
        """Ask an attempt to write a checkpoint and end."""

    def poll(self) -> Mapping[str, Mapping[int, int | None]]:
        """Return the attempts that ended since the last call: exit codes of ranks, first end first.

        None stands for a rank that was lost.
        """


@dataclass
class _Running:
    """A trial of which an attempt runs."""

    trial: Trial
    attempts: int
    log: TrialLog
    event_at: float | None = None
    """When the newest event of this attempt was read; None while its job waits or starts."""
    stopping: bool = False
    pruned: bool = False
    reported: int = 0
    """Tenths of the steps that the pruner has."""


class Sweep:
    """Runs the trials of one sweep, `jobs` at once, until `most` are finished (0: no end)."""

    def __init__(
        self,
        paths: SweepPaths,
        common: Config,
        plan: StudyPlan,
        study: Study,
        executor: AttemptExecutor,
        clock: Clock,
        print_line: Callable[[str], None],
        record: Record | None = None,
    ) -> None:
        self._paths, self._common, self._steps = paths, common, common.training.total_steps
        self._objectives, self._prune = plan.objectives, plan.prune
        self._study, self._executor, self._clock = study, executor, clock
        self._print = print_line
        self._record = record or (lambda *_: None)
        self._running: dict[str, _Running] = {}
        known = study.trials()
        self._waiting = [each for each in known if each.state == "running"]
        self._finished = Counter(each.state for each in known if each.state != "running")
        self._ends: list[str | None] = []
        """Trials that ended since we started, in this order: the reason of a failure, else None."""
        self._fatal, self._progress_at = "", clock.monotonic()

    def run(self, jobs: int, most: int, stop: Callable[[], str | None]) -> int:
        """Run until the end. Return 0, 9 (full disk), 13 (some failed) or 130 (a signal)."""
        rollouts = f"until {most} rollouts" if most else "until you stop it"
        self._print(f"sweep in {self._paths.root}, {jobs} at once, {rollouts}")
        for trial in self._waiting:
            self._print(f"{trial.run_id}: goes on from its checkpoint")
        while True:
            ended = dict(self._executor.poll())
            while ended:
                name = next(iter(ended))
                self._finish(name, ended.pop(name))
                ended |= self._executor.poll()  # the heartbeat; recording took seconds
            interruption = stop()
            reason = interruption or self._find_end(most)
            if reason and not self._running:
                return self._end(reason, interrupted=interruption is not None)
            if reason:
                for name in self._running:
                    self._stop(name)
            elif len(self._running) < jobs and self._has_next(most):
                self._start_next()
                continue
            self._watch()
            self._clock.wait(threading.Event(), _POLL_S)

    def _find_end(self, most: int) -> str:
        """Return the reason for which no further trial starts, "" if there is none."""
        if reason := self._fatal or find_breaker(self._ends):
            return reason
        finished = self._finished.total()
        return f"{finished} of {most} rollouts" if most and finished >= most else ""

    def _has_next(self, most: int) -> bool:
        started = self._finished.total() + len(self._running)
        return bool(self._waiting) or not most or started < most

    def _start_next(self) -> None:
        """Start an attempt of a trial that waits, or of a new one."""
        trial = self._waiting.pop(0) if self._waiting else self._create_trial()
        folder = self._paths.trial(trial.run_id)
        try:
            config = trial_config(self._common, trial, folder)
        except ConfigError as error:  # a space may hold settings that do not go together
            reason = f"{error.message}: {error.fix}"
            self._record(trial, Training((), 0, 0.0), Verdict("failed", reason))
            return self._fail(trial, reason, repeat=False)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "config.json", config_to_json(config))
        attempts = self._study.start_attempt(trial.number)
        attempt = TrialAttempt(f"{trial.run_id}.{attempts}", trial.run_id, folder)
        log = TrialLog(folder)
        log.read()  # events of earlier attempts are no sign of this one's life
        self._running[attempt.name] = _Running(trial, attempts, log)
        return self._executor.start(attempt)

    def _create_trial(self) -> Trial:
        trial = self._study.ask(take_run_id(self._paths))
        again = "" if trial.repeats is None else " (a repetition)"
        settings = (f"{key}={format_value(value)}" for key, value in trial.settings.items())
        self._print(f"{trial.run_id}: training with {', '.join(settings)}{again}")
        return trial

    def _finish(self, name: str, codes: Mapping[int, int | None]) -> None:
        """Judge an attempt that ended; its result goes to the record and to the sampler."""
        running = self._running.pop(name)
        trial, training = running.trial, running.log.read()
        reasons = running.log.reasons(codes)
        stopped, full_disk = running.stopping, self._find_full_disk(reasons)
        verdict = judge_attempt(
            codes, reasons, training, running.attempts, stopped=stopped, full_disk=full_disk
        )
        if running.pruned and verdict.outcome != "complete":
            verdict = Verdict("pruned", "its score lies below those of other trials")
        if verdict.outcome != "cut off":  # a driver killed between these two records it again
            self._record(trial, training, verdict)
        self._apply(verdict, trial, training)

    def _find_full_disk(self, reasons: Mapping[int, str]) -> str:
        """Return the error of a full disk: ours, or one that a learner met with a large file."""
        texts = [os.strerror(number) for number in DISK_FULL]
        theirs = (each for each in reasons.values() if any(text in each for text in texts))
        return find_full_disk(self._paths.root, _DISK_BYTES) or next(theirs, "")

    def _apply(self, verdict: Verdict, trial: Trial, training: Training) -> None:
        self._fatal = verdict.reason if verdict.fatal else self._fatal
        if verdict.outcome == "cut off":
            self._print(f"{trial.run_id}: cut off after {training.steps:,} steps: {verdict.reason}")
            self._waiting.append(trial)
        elif verdict.outcome == "failed":
            self._fail(trial, verdict.reason, repeat=verdict.repeat)
        elif verdict.outcome == "pruned":
            self._study.prune(trial.number)
            self._count("pruned")
            self._print(f"{trial.run_id}: pruned: {verdict.reason}")
        else:
            values = {"score": verdict.score, "cost": verdict.cost}
            self._study.tell(trial.number, [values[each] for each in self._objectives])
            self._count("complete")
            self._print(f"{trial.run_id}: training completed: {training.steps:,} steps")
            self._print(
                f"{trial.run_id}: evaluation results: score {verdict.score:.4g} "
                f"({verdict.reason}), cost {verdict.cost:.4g} CPU s"
            )
            self._print(f"{trial.run_id}: rollout completed")

    def _fail(self, trial: Trial, reason: str, *, repeat: bool) -> None:
        repeat = self._study.fail(trial.number, reason, repeat=repeat)
        self._count("failed", reason)
        self._print(f"{trial.run_id}: FAILED: {reason}{'; to be repeated once' * repeat}")

    def _count(self, state: str, reason: str | None = None) -> None:
        self._finished[state] += 1
        self._ends.append(reason)

    def _watch(self) -> None:
        """Show progress now and then, and prune trials of which the pruner expects nothing."""
        now = self._clock.monotonic()
        if progress := now - self._progress_at >= _PROGRESS_S:
            self._progress_at = now
        for name, running in self._running.items():
            before, training = running.log.events, running.log.read()
            self._watch_silence(name, running, alive=running.log.events > before)
            if progress:
                self._print(f"{running.trial.run_id}: {training.steps:,} of {self._steps:,} steps")
            if self._prune and not running.stopping and self._is_hopeless(running, training):
                running.pruned = True
                self._stop(name)

    def _watch_silence(self, name: str, running: _Running, *, alive: bool) -> None:
        """Stop an attempt that has written events and then none for `SILENT_S`."""
        now = self._clock.monotonic()
        if alive:
            running.event_at = now
        elif running.event_at and not running.stopping and now - running.event_at > SILENT_S:
            self._print(f"{running.trial.run_id}: stopped: no event for {SILENT_S:g} s")
            self._stop(name)

    def _is_hopeless(self, running: _Running, training: Training) -> bool:
        """Report the mean return of each tenth of the steps; return True if the pruner objects."""
        tenth = self._steps / 10
        bad = False
        while not bad and training.steps >= (running.reported + 1) * tenth:
            running.reported += 1
            start, end = (running.reported - 1) * tenth, running.reported * tenth
            returns = [value for step, value in training.episodes if start < step <= end]
            if returns:
                mean = sum(returns) / len(returns)
                bad = self._study.report(running.trial.number, running.reported, mean)
        return bad

    def _stop(self, name: str) -> None:
        if not self._running[name].stopping:
            self._running[name].stopping = True
            self._executor.stop(name)

    def _end(self, reason: str, *, interrupted: bool) -> int:
        name, folder = self._paths.root.name, self._paths.root.parents[1]
        number = self._finished
        states = ", ".join(f"{number[each]} {each}" for each in ("complete", "failed", "pruned"))
        self._print(f"sweep {name}: {states}; ended: {reason}")
        where = "" if folder == Path.cwd() / "runs" else f" --run-dir {folder}"
        self._print(f"report: python -m Daddy.sweep_report run={name}{where}")
        if interrupted:
            return int(ExitCode.INTERRUPTED)
        if self._fatal:
            return int(ExitCode.FILES)
        return int(ExitCode.PARTLY_FAILED if any(self._ends) else ExitCode.DONE)


def sweep_config(base: Config, request: SweepRequest) -> Config:
    """Return what the configurations of all trials have in common. ConfigError."""
    own = {
        "collaboration.enabled": False,
        "training.stream": False,
        "training.workload": request.workload,
        "training.total_steps": request.steps,
        "training.device": request.device,
        **({"slurm.gpus_per_job": 0} if request.device == "cpu" else {}),
    }
    return with_values(base, {**request.fixed, **own}, f"the sweep {request.name}")


def trial_config(common: Config, trial: Trial, folder: Path) -> Config:
    """Return the configuration of a trial. ConfigError if its settings do not go together."""
    seed = common.training.seed + trial.number
    name = trial.run_id[-_RUN_NAME:].lstrip("._-")
    own = {"run_dir": str(folder), "run_name": name, "training.seed": seed}
    return with_values(common, {**trial.settings, **own}, f"trial {trial.run_id}")
