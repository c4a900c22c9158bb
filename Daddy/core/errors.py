"""Pure. The exceptions of the project: each has a message, a remedy and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """Every exit code of our commands (meanings: ``docs/exit-codes.md``)."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CONFIGURATION = 3
    SCHEDULER = 4
    CONTROLLER_ALIVE = 5
    WEIGHTS = 6
    ROM = 7
    NETWORK = 8
    FILES = 9
    DRAINED = 10
    NOT_NEEDED = 11
    NOT_CONFINED = 12
    PARTLY_FAILED = 13
    PACKAGES_MISSING = 14
    NOT_LEARNT = 15
    DEGRADED = 20
    DOWN = 21
    UNKNOWN = 22
    NO_RELAY = 30
    REFUSED = 31
    DO_NOT_RESTART = 93
    INTERRUPTED = 130


class DaddyError(Exception):
    """An error that a person can mend: ``message`` says what happened, ``fix`` what to do next."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.fix}" if self.fix else self.message


class UsageError(DaddyError):
    """The command line cannot be carried out as typed."""

    exit_code = ExitCode.USAGE


class ConfigError(DaddyError):
    """A setting is wrong, unknown, or cannot be met on this machine."""

    exit_code = ExitCode.CONFIGURATION


class SchedulerError(DaddyError):
    """The scheduler refused a request or gives no answer."""

    exit_code = ExitCode.SCHEDULER


class ControllerAliveError(DaddyError):
    """Another controller holds the lease of this run."""

    exit_code = ExitCode.CONTROLLER_ALIVE


class WeightsError(DaddyError):
    """Shared weights are missing, damaged or refused."""

    exit_code = ExitCode.WEIGHTS


class RomError(DaddyError):
    """The ROM or a save state is missing, wrong or refused."""

    exit_code = ExitCode.ROM


class NetworkError(DaddyError):
    """A host or a port cannot be used."""

    exit_code = ExitCode.NETWORK


class FileError(DaddyError):
    """A file or a folder cannot be read or written."""

    exit_code = ExitCode.FILES


class SandboxError(DaddyError):
    """No sandbox can be made here, or a sandbox ended by itself."""

    exit_code = ExitCode.NOT_CONFINED


class CopyFailedError(SandboxError):
    """A sandbox answered that it cannot copy its files, or sent what is refused."""


OWN_ENVIRONMENT = {"harbor": "python3.12", "tinker": "python3.11", "vllm": "python3.12"}
"""Extra that cannot be installed beside ours → the oldest Python that it runs on."""


class ExtraMissingError(DaddyError):
    """A package is not installed: an extra of ours brings it."""

    exit_code = ExitCode.PACKAGES_MISSING

    def __init__(self, package: str, extra: str) -> None:
        line = f".venv/bin/python -m pip install -c constraints.txt -e '.[{extra}]'"
        if python := OWN_ENVIRONMENT.get(extra):
            own = f"runs/{extra}"
            line = f"{python} -m venv {own} && {own}/bin/python -m pip install -e '.[{extra}]'"
        super().__init__(
            f"the package {package} is not installed",
            f"type this where pyproject.toml lies: {line}",
        )


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Stand around imports of packages that an extra of ours brings. ExtraMissingError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissingError(str(error.name), extra) from error
