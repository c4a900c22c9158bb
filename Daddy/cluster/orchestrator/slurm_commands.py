"""Adapter for Slurm's programs: runs them with a clean environment and a timeout, counts calls.

Of the person's ``SQUEUE_*``, ``SBATCH_*`` and ``SLURM_*`` variables only ``SLURM_CONF`` is passed
on, because ``SQUEUE_STATES=R``, for instance, would hide every waiting job from the listing. Each
call of controller, ``status`` and jobs is one line of a file per host and day in
``controller/calls``, appended without a lock.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from Daddy.core.atomic_files import append_line
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, DaddyError
from Daddy.core.host_and_processes import host_name
from Daddy.core.run_subprocess import Completed, run_command
from Daddy.core.settings import OWN_OPTIONS, SlurmSettings

_PREFIXES = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_", "SACCT_", "SCONTROL_",
            "SINFO_")  # fmt: skip
_READ_TIMEOUT_S = 10.0
INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "SLURM_CONF",
    "BASH_ENV", "MODULEPATH", "MODULESHOME", "LMOD_CMD", "LMOD_DIR", "LMOD_PKG",
)  # fmt: skip
"""Variables that a job inherits from the submitting shell. ``ALL`` would pass on the variables of
the job that submits its successor, and everything exported before ``start``."""
_LISTS = ("PATH", "LD_LIBRARY_PATH")
"""Variables that name folders, separated by colons."""
_KEPT_BYTES = 48 << 10
"""Most bytes of environment in `intent.json`, of which at most 64 KiB are read."""

_SHELL_SETTINGS = {
    "SBATCH_ACCOUNT": "account", "SBATCH_CONSTRAINT": "constraint", "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos", "SBATCH_RESERVATION": "reservation",
}  # fmt: skip
"""Variable of the person's shell → the setting that it fills where nobody set one."""
_ERROR_SETTINGS = {
    r"\baccount\b": "account",
    r"\bpartition\b": "partition",
    r"\bqos\b": "qos",
    r"feature|constraint": "constraint",
    r"reservation": "reservation",
    r"license": "licenses",
    r"time limit": "time_limit",
    r"node configuration|processors|\bcpus?\b": "cpus_per_job",
    r"node configuration|generic resource|\bgres\b|\bgpus?\b": "gpus_per_job gpu_type",
    r"node configuration|\bmemory\b": "memory",
    r"node name": "exclude",
    r"unrecognized|invalid option": "options",
}
"""Pattern in an error of sbatch → the settings to look at."""


def name_settings(text: str) -> str:
    """Return the settings that an error of sbatch is about, separated by commas, or ""."""
    found = [
        f"slurm.{name}"
        for pattern, names in _ERROR_SETTINGS.items()
        if re.search(pattern, text, re.IGNORECASE)
        for name in names.split()
    ]
    return ", ".join(found)


def read_shell_settings(
    slurm: SlurmSettings, environ: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return settings by dotted key for keys that nobody set, and a line on what is not used."""
    given = {name: text for name, text in sorted(environ.items()) if name.startswith("SBATCH_")}
    values, unused = dict[str, str](), list[str]()
    for name, text in given.items():
        key = _SHELL_SETTINGS.get(name, "")
        before = getattr(slurm, key, None) if key in slurm.model_fields_set else None
        if key and text and not before:
            values[f"slurm.{key}"] = text
        elif text and text != before:
            unused.append(f"{name} (slurm.{key} is set)" if key else name)
    notes = [f"not used: {', '.join(unused)}; slurm.options takes options of sbatch"]
    return values, notes if unused else []


def parse_job_options(words: Sequence[str]) -> dict[str, str]:
    """Return options of sbatch from ``name=value`` words of --sbatch. ConfigError for any other.

    Some options are the run's own: without its job's name and comment a job is not found again.
    """
    parts = [word.lstrip("-").partition("=") for word in words]
    if bad := [word for word, equals, _ in parts if not equals]:
        raise ConfigError(f"--sbatch {bad[0]} has no value", "write it as mem=8G, for example")
    options = {name.replace("_", "-"): value for name, _, value in parts}
    for name in options.keys() - {"time"}:
        if any(own.startswith(name) for own in (*OWN_OPTIONS, "ntasks-per-node")):
            raise ConfigError(f"--sbatch {name} belongs to the run", "leave it out")
    return options


def describe_changes(before: SlurmSettings, now: SlurmSettings) -> list[str]:
    """Return a line on values that the last start had and this shell does not give, if any."""
    changed = [
        f"slurm.{key} {getattr(now, key) or 'none'} (was {old})"
        for key in _SHELL_SETTINGS.values()
        if (old := getattr(before, key)) and old != getattr(now, key)
    ]
    return [f"changed since the last start: {', '.join(changed)}"] if changed else []


def slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` without the variables that change the output of Slurm's programs."""
    env = {key: value for key, value in environ.items() if not key.startswith(_PREFIXES)}
    if "SLURM_CONF" in environ:
        env["SLURM_CONF"] = environ["SLURM_CONF"]
    return {**env, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


def keep_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that Slurm's programs and jobs need, and a line on what is dropped.

    ``start`` keeps them for cron: 48 KiB at most, first the variables that name no list of folders.
    """
    kept, dropped, room = dict[str, str](), list[str](), _KEPT_BYTES
    for name in sorted((*INHERITED, *_LISTS[1:]), key=_LISTS.__contains__):
        text = environ.get(name, "")
        if name in _LISTS:
            text = ":".join(dict.fromkeys(text.split(":")))
        part = _shorten(text, room - len(name), folders=name in _LISTS)
        if part:
            kept[name] = part
            room -= len(name) + len(json.dumps(part))
        if part != text:
            most = f"{name} after its first {part.count(':') + 1} folders" if part else name
            dropped.append(most)
    note = f"over {_KEPT_BYTES >> 10} KiB, so not kept for cron: {', '.join(dropped)}"
    return kept, [note] if dropped else []


def _shorten(text: str, room: int, *, folders: bool) -> str:
    """Return ``text``, or as many of its first ``folders`` as fit in ``room`` bytes of JSON."""
    encoded = json.dumps(text)
    if len(encoded) <= room:
        return text
    whole = encoded[: max(0, room - 1)].rpartition(":")[0] if folders else ""
    return str(json.loads(f'{whole}"')) if whole else ""


def complete_environment(environ: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` with kept variables that it lacks, and kept folders after its own."""
    folders = {
        name: ":".join(dict.fromkeys([*environ.get(name, "").split(":"), *kept[name].split(":")]))
        for name in _LISTS
        if name in kept
    }
    return {**kept, **environ, **{name: text.strip(":") for name, text in folders.items()}}


class SlurmCommands:
    """Runs Slurm's programs for one run; ``folder``: of the call counts, or None."""

    def __init__(self, clock: Clock, environ: Mapping[str, str], folder: Path | None) -> None:
        self._clock = clock
        self._env = slurm_environment(environ)
        self._folder = folder

    @property
    def place(self) -> str:
        """Host, SLURM_CONF and squeue, which decide the cluster that answers."""
        squeue = shutil.which("squeue", path=self._env.get("PATH"))
        return f"{host_name()} {self._env.get('SLURM_CONF', '')} {squeue}"

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run and count a program. Raises ProgramMissingError; ProcessTimeoutError (killed)."""
        self.count_call(Path(argv[0]).name)
        return run_command(argv, timeout_s, env=self._env, die_with_us=True)

    def read_output(self, argv: Sequence[str], timeout_s: float = _READ_TIMEOUT_S) -> str | None:
        """Return a command's standard output; None if it fails or takes over ``timeout_s``."""
        if timeout_s <= 0:
            return None
        try:
            result = self.run(argv, timeout_s)
        except DaddyError:
            return None
        return result.stdout if result.returncode == 0 else None

    def count_call(self, program: str) -> None:
        if self._folder is not None:
            now = self._clock.now()
            day = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d")
            with contextlib.suppress(OSError):  # full disk: lose the count only
                append_line(self._folder / f"{host_name()}-{day}.log", f"{int(now)} {program}")
