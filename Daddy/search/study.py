"""Adapter for Optuna: suggests the settings of trials, and keeps a sweep's trials in one file.

The file is a journal in Optuna's format, a JSON object in each line, which Optuna's own tools read.
One process writes it, the one that holds the sweep's lock. Each
line is on disk before the call that writes it returns, and a trial starts with a single line, so a
process killed at any moment leaves no half of a trial. Readers never change the file.

A suggestion depends on the plan's seed and on the trials so far alone: the random generator starts
anew for each trial's number, so a process that continues a sweep suggests as the one before it.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import append_at, parse_json, read_bounded
from Daddy.core.errors import ConfigError, FileError, needs_extra
from Daddy.search.search_space import Choices, Range, Space
from Daddy.search.study_plan import StudyPlan, Trial, differences, plan_from_json, plan_to_json

with needs_extra("search"):
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.storages import JournalStorage
    from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)

JOURNAL_BYTES = 1 << 28
"""Largest journal that is read; 100,000 trials take 180 MB."""
STARTUP_TRIALS = 10
"""Complete trials before a sampler follows its model: they are drawn at random."""
PRUNE_FROM = 5
"""Complete trials before one is ended early: the median of fewer means little."""
IMPORTANCE_FROM = 8
"""Complete trials from which the importance of a setting is estimated."""
_BEST_TRIALS = 5
"""Trials that count as the best for it, as Optuna recommends; at most half of all."""
_DIRECTIONS = {"score": "maximize", "cost": "minimize"}
_STATES = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
}


class Study:
    """The trials of one sweep and their results. One process and one thread holds it."""

    def __init__(self, journal: Path, plan: StudyPlan) -> None:
        """Create the journal, or continue it. FileError if it is damaged.

        ConfigError if it has another plan. A line torn by a power cut is cut off: the call that
        wrote it had not returned.
        """
        self._plan = plan
        self._lines = _JournalFile(journal)
        self._lines.cut_torn_line()
        self._storage, found = _open(self._lines)
        if found and (changed := "; ".join(differences(found, plan))):
            raise ConfigError(
                f"the sweep in {journal.parent} has {changed}",
                "continue it as it started, or give the new sweep another name",
            )
        if found:  # create_study would add a line at each start
            self._study = optuna.load_study(study_name=_name(plan), storage=self._storage)
            return
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=_name(plan),
            directions=[_DIRECTIONS[name] for name in plan.objectives],
            load_if_exists=True,  # killed here, a process left a study without a plan
        )
        self._study.set_user_attr("plan", plan_to_json(plan))

    def ask(self, run_id: str) -> Trial:
        """Return a new trial: a repetition that waits, else settings that the sampler suggests."""
        known = self._study.get_trials(deepcopy=False)
        repeated = _waiting_repetition(known)
        attributes = {"run_id": run_id, "attempts": 0, "repeats": repeated and repeated.number}
        trial = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=repeated.params if repeated else _suggest(self._plan, known),
            distributions=_distributions(self._plan.space),
            user_attrs=attributes,
        )
        self._study.add_trial(trial)
        return self.trials()[-1]

    def start_attempt(self, number: int) -> int:
        """Record that a trial starts, or goes on after an interruption; return the attempts."""
        attempts: int = self._trial(number).user_attrs["attempts"] + 1
        self._storage.set_trial_user_attr(self._id(number), "attempts", attempts)
        return attempts

    def tell(self, number: int, values: Sequence[float]) -> None:
        """Complete a running trial. ValueError unless each objective has a finite value."""
        if not all(isfinite(value) for value in values):
            raise ValueError(f"trial {number} has the values {values}: let it fail instead")
        self._study.tell(number, list(values), state=TrialState.COMPLETE)

    def fail(self, number: int, reason: str, *, repeat: bool = False) -> bool:
        """End a running trial without values; the sampler learns nothing from it.

        ``repeat``: a later `ask` gives its settings once more, except a repetition's own. Return
        True if it will.
        """
        repeat = repeat and self._trial(number).user_attrs["repeats"] is None
        failure = {"reason": reason, "repeat": repeat}
        self._storage.set_trial_user_attr(self._id(number), "failure", failure)
        self._study.tell(number, state=TrialState.FAIL)
        return repeat

    def report(self, number: int, step: int, score: float) -> bool:
        """Record a score on the way; return True if the trial is to be pruned now.

        That is if its best score so far is below the median of the complete trials at this
        ``step``, so all trials must report at the same steps. False unless the plan prunes.
        """
        if not self._plan.prune or not isfinite(score):
            return False
        self._storage.set_trial_intermediate_value(self._id(number), step, score)
        median = optuna.pruners.MedianPruner(PRUNE_FROM, n_min_trials=PRUNE_FROM)
        return bool(median.prune(self._study, self._trial(number)))

    def prune(self, number: int) -> None:
        """End a running trial early; of the samplers TPE learns from its last reported score."""
        self._study.tell(number, state=TrialState.PRUNED)

    def trials(self) -> list[Trial]:
        """Return all trials, by number."""
        return _trials(self._study)

    def _id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(_name(self._plan))
        return int(self._storage.get_trial_id_from_study_id_trial_number(study, number))

    def _trial(self, number: int) -> Any:
        return self._storage.get_trial(self._id(number))


def read_study(journal: Path) -> tuple[StudyPlan, list[Trial]]:
    """Return a study's plan and trials, also while its driver writes. FileError."""
    plan, study = _read(journal)
    return plan, _trials(study)


def importance(journal: Path) -> Mapping[str, Mapping[str, float]]:
    """Return objective → setting → share of its influence, most first (PED-ANOVA). FileError.

    The influence is that on being among the best trials. Empty while fewer than
    `IMPORTANCE_FROM` trials are complete; without an objective in which all are equal.
    """
    plan, study = _read(journal)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < IMPORTANCE_FROM:
        return {}
    best = min(0.5, max(0.1, _BEST_TRIALS / len(complete)))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=best)
    with _silence():
        return {
            name: get_param_importances(
                study, evaluator=evaluator, target=partial(_loss, name, place)
            )
            for place, name in enumerate(plan.objectives)
            if len({trial.values[place] for trial in complete}) > 1
        }


class _JournalFile:
    """Provides the lines of a journal to Optuna's storage, and appends durably."""

    def __init__(self, path: Path) -> None:
        """Read the complete lines. FileError if one is damaged."""
        self.path = path
        try:
            data = read_bounded(path, JOURNAL_BYTES)
        except FileNotFoundError:
            data = b""
        self._size = data.rfind(b"\n") + 1
        lines = data[: self._size].splitlines()
        self._logs = [parse_json(line, f"{path}:{at}") for at, line in enumerate(lines, start=1)]

    def cut_torn_line(self) -> None:
        """Cut off bytes after the last complete line."""
        if self.path.exists():
            os.truncate(self.path, self._size)

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """Return the lines from a number on, counted from 0."""
        return self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines; they are on disk when this returns. OSError, FileError."""
        lines = [json.dumps(log, separators=(",", ":"), allow_nan=False) for log in logs]
        data = "".join(f"{line}\n" for line in lines).encode()
        append_at(self.path, self._size, data)
        self._size += len(data)
        self._logs += [json.loads(line) for line in lines]


def _open(lines: _JournalFile) -> tuple[Any, StudyPlan | None]:
    """Return Optuna's storage, and the plan if the study has started. FileError."""
    try:
        storage = JournalStorage(lines)
        for study in storage.get_all_studies():
            if "plan" in study.user_attrs:
                plan = plan_from_json(study.user_attrs["plan"])
                _trials(optuna.load_study(study_name=_name(plan), storage=storage))
                return storage, plan
    except (
        AssertionError,
        AttributeError,
        ConfigError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise FileError(f"{lines.path} is no journal of a study: {error}", "restore it") from error
    return storage, None


def _read(journal: Path) -> tuple[StudyPlan, Any]:
    storage, plan = _open(_JournalFile(journal))
    if plan is None:
        raise FileError(f"there is no study in {journal}", "start the sweep, or name another one")
    return plan, optuna.load_study(study_name=_name(plan), storage=storage)


def _name(plan: StudyPlan) -> str:
    """Return the study's name in the journal; studies of one name have the same objectives."""
    return ",".join(plan.objectives)


def _trials(study: Any) -> list[Trial]:
    return [_to_trial(trial) for trial in study.get_trials(deepcopy=False)]


def _to_trial(trial: Any) -> Trial:
    attributes, state = trial.user_attrs, _STATES[trial.state]
    return Trial(
        number=trial.number,
        run_id=attributes["run_id"],
        settings=dict(trial.params),
        state=state,
        values=tuple(trial.values) if state == "complete" else (),
        attempts=attributes["attempts"],
        reason=attributes["failure"]["reason"] if state == "failed" else "",
        repeats=attributes["repeats"],
    )


def _waiting_repetition(trials: Sequence[Any]) -> Any:
    """Return the first failed trial that shall be repeated and was not, None if there is none."""
    repeated = {trial.user_attrs["repeats"] for trial in trials}
    for trial in trials:
        wanted = trial.user_attrs.get("failure", {}).get("repeat", False)
        if trial.state == TrialState.FAIL and wanted and trial.number not in repeated:
            return trial
    return None


def _suggest(plan: StudyPlan, known: Sequence[Any]) -> dict[str, Any]:
    """Return the sampler's suggestion after the ``known`` trials, running ones included."""
    digest = hashlib.sha256(f"{plan.seed} {len(known)}".encode()).digest()
    with _silence():
        study = optuna.create_study(
            sampler=_sampler(plan, int.from_bytes(digest[:4], "big")),
            directions=[_DIRECTIONS[name] for name in plan.objectives],
        )
        study.add_trials(known)
        return dict(study.ask(_distributions(plan.space)).params)


def _sampler(plan: StudyPlan, seed: int) -> Any:
    if plan.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if plan.sampler == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
    # Of 30 noisy trials joint densities learn less: no better than random in hypervolume.
    return optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=False, constant_liar=True
    )


def _distributions(space: Space) -> dict[str, Any]:
    return {key: _distribution(space[key]) for key in sorted(space)}


def _distribution(values: Range | Choices) -> Any:
    if isinstance(values, Choices):
        return optuna.distributions.CategoricalDistribution(values.values)
    if values.integer:
        ends = int(values.low), int(values.high)
        return optuna.distributions.IntDistribution(*ends, log=values.log)
    return optuna.distributions.FloatDistribution(values.low, values.high, log=values.log)


def _loss(objective: str, place: int, trial: Any) -> float:
    """Return a trial's value, smaller where better."""
    value: float = trial.values[place]
    return value if _DIRECTIONS[objective] == "minimize" else -value


@contextmanager
def _silence() -> Iterator[None]:
    """Keep warnings of Optuna, and of libraries below it, from stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
