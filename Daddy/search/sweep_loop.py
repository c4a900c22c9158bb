"""Drives a sweep: asks the sampler for settings, runs trials, judges them, tells the sampler.

1. Under the sweep's lock, trials that the journal still counts as running are taken up first: the
   driver before us was killed, and their checkpoints are in their folders.
2. A new trial gets a run id and settings; its configuration is written to its folder, and an
   attempt starts on every rank.
3. An attempt that ended is judged from its events. Cut off: it starts again from its checkpoint.
   Complete: score and cost go to the sampler. Failed: the sampler hears that, and the next begins.
4. The sweep ends after its number of trials, when the breaker opens, on a full disk, or when asked;
   then running trials are stopped, and the next driver takes them up.
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
from Daddy.search.local_trials import TrialAttempt
from Daddy.search.search_space import format_value
from Daddy.search.study_plan import StudyPlan, Trial
from Daddy.search.sweep_files import SweepPaths, take_run_id
from Daddy.search.sweep_request import SweepRequest
from Daddy.search.trial_log import TrialLog
from Daddy.search.trial_rules import AttemptEnd, Training, Verdict, find_breaker, judge_attempt

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
Say = Callable[[str], None]
Record = Callable[[Trial, Training, Verdict], None]


class Trials(Protocol):
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
    heard_at: float | None = None
    """When the newest event of this attempt was read; None while its job waits or begins."""
    asked: bool = False
    pruned: bool = False
    reported: int = 0
    """Tenths of the steps of which the pruner has heard."""


class Sweep:
    """Runs the trials of one sweep, `jobs` at once, until `most` are finished (0: no end)."""

    def __init__(
        self,
        paths: SweepPaths,
        common: Config,
        plan: StudyPlan,
        study: Study,
        trials: Trials,
        clock: Clock,
        say: Say,
        record: Record | None = None,
    ) -> None:
        self._paths, self._common, self._steps = paths, common, common.training.total_steps
        self._objectives, self._prune = plan.objectives, plan.prune
        self._study, self._trials, self._clock, self._say = study, trials, clock, say
        self._record = record or (lambda *_: None)
        self._running: dict[str, _Running] = {}
        self._waiting = [each for each in study.trials() if each.state == "running"]
        self._finished = self._read_finished()
        self._ends: list[str | None] = []
        """Trials that ended since we began, in this order: the reason of a failure, else None."""
        self._fatal, self._said = "", clock.monotonic()

    def run(self, jobs: int, most: int, stop: Callable[[], str | None]) -> int:
        """Run until the end. Return 0, 9 (full disk), 13 (some failed) or 130 (asked to stop)."""
        rollouts = f"until {most} rollouts" if most else "until you stop it"
        self._say(f"sweep in {self._paths.root}, {jobs} at once, {rollouts}")
        for trial in self._waiting:
            self._say(f"{trial.run_id}: goes on from its checkpoint")
        while True:
            ended = dict(self._trials.poll())
            while ended:
                name = next(iter(ended))
                self._finish(name, ended.pop(name))
                ended |= self._trials.poll()  # recording takes seconds; other ranks hear us here
            asked = stop()
            reason = asked or self._find_end(most)
            if reason and not self._running:
                return self._end(reason, asked=asked is not None)
            if reason:
                self._stop_all()
            elif len(self._running) < jobs and self._has_next(most):
                self._start_next()
                continue
            self._watch()
            self._clock.wait(threading.Event(), _POLL_S)

    def _read_finished(self) -> list[Trial]:
        return [each for each in self._study.trials() if each.state != "running"]

    def _find_end(self, most: int) -> str:
        """Return the reason for which no further trial starts, "" if there is none."""
        if reason := self._fatal or find_breaker(self._ends):
            return reason
        enough = most and len(self._finished) >= most
        return f"{len(self._finished)} of {most} rollouts" if enough else ""

    def _has_next(self, most: int) -> bool:
        begun = len(self._finished) + len(self._running)
        return bool(self._waiting) or not most or begun < most

    def _start_next(self) -> None:
        """Start an attempt of a trial that waits, or of a new one."""
        trial = self._waiting.pop(0) if self._waiting else self._ask()
        folder = self._paths.trial(trial.run_id)
        try:
            config = trial_config(self._common, trial, folder)
        except ConfigError as error:  # a space may hold settings that do not go together
            reason = f"{error.message}: {error.fix}"
            self._record(trial, Training((), 0, 0.0), Verdict("failed", reason))
            return self._fail(trial, reason, repeat=False)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "config.json", config_to_json(config))
        attempts = self._study.begin_attempt(trial.number)
        attempt = TrialAttempt(f"{trial.run_id}.{attempts}", trial.run_id, folder)
        log = TrialLog(folder)
        log.read()  # events of earlier attempts are no sign of this one's life
        self._running[attempt.name] = _Running(trial, attempts, log)
        return self._trials.start(attempt)

    def _ask(self) -> Trial:
        trial = self._study.ask(take_run_id(self._paths))
        again = "" if trial.repeats is None else " (a repetition)"
        settings = (f"{key}={format_value(value)}" for key, value in trial.settings.items())
        self._say(f"{trial.run_id}: training with {', '.join(settings)}{again}")
        return trial

    def _finish(self, name: str, codes: Mapping[int, int | None]) -> None:
        """Judge an attempt that ended, and tell the sampler."""
        running = self._running.pop(name)
        trial, training = running.trial, running.log.read()
        reasons = running.log.reasons(codes)
        end = AttemptEnd(codes, reasons, running.asked, self._find_full_disk(reasons))
        verdict = judge_attempt(end, training, running.attempts)
        if running.pruned and verdict.outcome != "complete":
            verdict = Verdict("pruned", "its score lies below those of other trials")
        if verdict.outcome != "cut off":  # before the sampler hears: a driver killed now repeats it
            self._record(trial, training, verdict)
        if verdict.outcome == "pruned":
            self._study.prune(trial.number)
            self._ends.append(None)
            self._say(f"{trial.run_id}: pruned: {verdict.reason}")
            self._finished = self._read_finished()
        else:
            self._tell(running, training, verdict)

    def _find_full_disk(self, reasons: Mapping[int, str]) -> str:
        """Return the error of a full disk: ours, or one that a learner met with a large file."""
        texts = [os.strerror(number) for number in DISK_FULL]
        theirs = (each for each in reasons.values() if any(text in each for text in texts))
        return find_full_disk(self._paths.root, _DISK_BYTES) or next(theirs, "")

    def _tell(self, running: _Running, training: Training, verdict: Verdict) -> None:
        trial, say = running.trial, self._say
        self._fatal = verdict.reason if verdict.fatal else self._fatal
        if verdict.outcome == "cut off":
            say(f"{trial.run_id}: cut off after {training.steps:,} steps: {verdict.reason}")
            self._waiting.append(trial)
        elif verdict.outcome == "failed":
            self._fail(trial, verdict.reason, repeat=verdict.repeat and trial.repeats is None)
        else:
            self._ends.append(None)
            values = {"score": verdict.score, "cost": verdict.cost}
            self._study.tell(trial.number, [values[each] for each in self._objectives])
            say(f"{trial.run_id}: training completed: {training.steps:,} steps")
            say(
                f"{trial.run_id}: evaluation results: score {verdict.score:.4g} "
                f"({verdict.reason}), cost {verdict.cost:.4g} CPU s"
            )
            say(f"{trial.run_id}: rollout completed")
        self._finished = self._read_finished()

    def _fail(self, trial: Trial, reason: str, *, repeat: bool) -> None:
        self._study.fail(trial.number, reason, repeat=repeat)
        self._ends.append(reason)
        self._say(f"{trial.run_id}: FAILED: {reason}{'; to be repeated once' * repeat}")
        self._finished = self._read_finished()

    def _watch(self) -> None:
        """Show progress now and then, and prune trials of which the pruner expects nothing."""
        told = self._clock.monotonic() - self._said >= _PROGRESS_S
        for name, running in self._running.items():
            before, training = running.log.events, running.log.read()
            self._watch_silence(name, running, heard=running.log.events > before)
            if told:
                self._say(f"{running.trial.run_id}: {training.steps:,} of {self._steps:,} steps")
            if self._prune and not running.asked and self._is_hopeless(running, training):
                running.pruned = running.asked = True
                self._trials.stop(name)
        self._said = self._clock.monotonic() if told else self._said

    def _watch_silence(self, name: str, running: _Running, *, heard: bool) -> None:
        """Stop an attempt that has written events and then none for `SILENT_S`."""
        now = self._clock.monotonic()
        if heard:
            running.heard_at = now
        elif running.heard_at and not running.asked and now - running.heard_at > SILENT_S:
            self._say(f"{running.trial.run_id}: stopped: no event for {SILENT_S:g} s")
            running.asked = True
            self._trials.stop(name)

    def _is_hopeless(self, running: _Running, training: Training) -> bool:
        """Report the mean return of each tenth of the steps; return True if the pruner objects."""
        tenth = self._steps / 10
        bad = False
        while not bad and training.steps >= (running.reported + 1) * tenth:
            running.reported += 1
            begin, end = (running.reported - 1) * tenth, running.reported * tenth
            returns = [value for step, value in training.episodes if begin < step <= end]
            if returns:
                mean = sum(returns) / len(returns)
                bad = self._study.report(running.trial.number, running.reported, mean)
        return bad

    def _stop_all(self) -> None:
        for name, running in self._running.items():
            if not running.asked:
                running.asked = True
                self._trials.stop(name)

    def _end(self, reason: str, *, asked: bool) -> int:
        counts = Counter(each.state for each in self._finished)
        told = ", ".join(f"{counts[state]} {state}" for state in ("complete", "failed", "pruned"))
        name = self._paths.root.name
        self._say(f"sweep {name}: {told}; ended: {reason}")
        folder = self._paths.root.parents[1]
        where = "" if folder == Path.cwd() / "runs" else f" --run-dir {folder}"
        self._say(f"report: python -m Daddy.sweep_report run={name}{where}")
        if asked:
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
