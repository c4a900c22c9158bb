"""Reads a task folder in Harbor's format: instruction, environment, tests, solution, task.toml.

A key of task.toml is honoured or refused by its name: a limit that is ignored is none. A network
that it allows is no limit: the task is read, and its sandboxes have none all the same. Older
spellings are read too: ``memory = "2G"``, ``storage``, ``allow_internet``.
"""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from Daddy.core.errors import ConfigError
from Daddy.core.humanize import printable_line
from Daddy.terminal.dockerfile import Recipe, map_image, parse_dockerfile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_UNITS = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_NOT_HERE = ("docker-compose.yaml", "docker-compose.yml")
_Value = Annotated[str, Field(pattern=r"^[^$]*$")]
"""Value of a variable; ``${NAME}`` would be one of the host's, of which none is shown."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_keys(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: given[key] for key in given if key in cls.model_fields or given[key] != []}


class _Environment(_Section):
    build_timeout_sec: float = Field(600.0, gt=0)
    cpus: float = Field(1.0, gt=0)
    memory_mb: int = Field(2048, ge=32)
    storage_mb: int = Field(10240, ge=1)
    gpus: Literal[0] = 0
    allow_internet: bool = False
    network_mode: Literal["no-network", "public"] = "no-network"
    os: Literal["linux"] = "linux"
    docker_image: str = ""
    workdir: str = ""
    env: dict[str, _Value] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_older_keys(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = dict(given)
        for old in ("memory", "storage"):
            if isinstance(size := given.pop(old, None), str):
                unit = _UNITS.get(size[-1:].upper(), 0.0)
                with contextlib.suppress(ValueError, OverflowError):  # refused below, by its name
                    size = int(float(size[:-1]) * unit) if unit else size
                given[f"{old}_mb"] = size
        return given


class _Agent(_Section):
    timeout_sec: float = Field(600.0, gt=0)
    network_mode: Literal["", "no-network", "public"] = ""


class _Verifier(_Agent):
    env: dict[str, _Value] = Field(default_factory=dict)
    environment_mode: Literal["", "separate", "shared"] = ""


class _Solution(_Section):
    env: dict[str, _Value] = Field(default_factory=dict)


class _TaskFile(_Section):
    version: str = ""
    schema_version: str = ""
    task: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    source: str = ""
    artifacts: tuple[str, ...] = ()
    environment: _Environment = _Environment()
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    solution: _Solution = _Solution()

    @field_validator("artifacts")
    @classmethod
    def _check_artifacts(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if not path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"{path!r} is no absolute path")
        return tuple(path.strip("/") for path in paths)


@dataclass(frozen=True)
class TerminalTask:
    """A task as its folder states it; times in seconds.

    `context` holds the Dockerfile and what it copies. `artifacts` are the only changes that the
    verifier sees; none: it sees all. `in_place` grades beside the agent's processes, which can then
    forge the reward.
    """

    folder: Path
    context: Path
    instruction: str
    recipe: Recipe
    settings: _TaskFile

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def allows_network(self) -> bool:
        environment, agent = self.settings.environment, self.settings.agent
        if agent.network_mode:
            return agent.network_mode == "public"
        return environment.allow_internet or environment.network_mode == "public"

    @property
    def in_place(self) -> bool:
        return self.settings.verifier.environment_mode == "shared"

    @property
    def asks_for_disk(self) -> bool:
        """Tell that its file states more storage than memory."""
        asked = self.settings.environment
        return "storage_mb" in asked.model_fields_set and asked.storage_mb > asked.memory_mb


def read_task(folder: Path) -> TerminalTask:
    """Read and check a task folder. Raises ConfigError that names file, key and value."""
    folder = folder.resolve()
    for name in ("instruction.md", "task.toml", "tests/test.sh"):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder} is no task: it has no {name}",
                "name a folder with instruction.md, task.toml, environment/ and tests/test.sh",
            )
    settings = _read_settings(folder / "task.toml", _read_toml(folder / "task.toml"))
    for path in [
        *(folder / "environment" / name for name in _NOT_HERE),
        folder / "tests/Dockerfile",
    ]:
        if path.exists():
            raise ConfigError(f"{path} is not supported", "use one environment/Dockerfile")
    instruction = _read_text(folder / "instruction.md")
    context = folder / "environment"
    return TerminalTask(folder, context, instruction, _read_recipe(context, settings), settings)


def read_context(context: Path, environment: Mapping[str, Any]) -> TerminalTask:
    """Read a folder with a Dockerfile as a task, without the other files of one.

    `environment` is the section of task.toml; the limits that it does not give are the usual ones.
    Raises ConfigError that names key and value.
    """
    folder = context.resolve().parent
    settings = _read_settings(folder / "task.toml", {"environment": environment})
    return TerminalTask(folder, context, "", _read_recipe(context, settings), settings)


def read_grading(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return task.toml's mode of the verifier (``shared``, ``separate`` or nothing) and artifacts.

    Artifacts are paths without their first slash. Raises ConfigError.
    """
    given = _read_toml(path)
    found, verifier = given.get("artifacts"), given.get("verifier")
    listed = found if isinstance(found, list) else []
    sources = [each.get("source") if isinstance(each, dict) else each for each in listed]
    settings = _read_settings(path, {"artifacts": sources})
    mode = verifier.get("environment_mode", "") if isinstance(verifier, dict) else ""
    return str(mode), settings.artifacts


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}", "save it as UTF-8") from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = tomllib.loads(_read_text(path))
        return found
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}", "correct this line") from error


def _read_settings(path: Path, given: Mapping[str, Any]) -> _TaskFile:
    try:
        return _TaskFile.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        value = printable_line(repr(first["input"]), 60)
        raise ConfigError(
            f"{path}: {key} = {value} cannot be met here: {first['msg']}",
            f"change or remove {key}; sandboxes have no GPU and one container",
        ) from error


def _read_recipe(context: Path, settings: _TaskFile) -> Recipe:
    dockerfile, base = context / "Dockerfile", settings.environment.docker_image
    if dockerfile.is_file():  # an image of its result cannot be fetched
        recipe = parse_dockerfile(_read_text(dockerfile), f"{context.name}/Dockerfile")
    else:
        try:
            recipe = Recipe(map_image(base or "debian:12"))
        except ValueError as error:
            raise ConfigError(
                f"{context.parent / 'task.toml'}: environment.docker_image = {base!r}: {error}",
                "name one of these, or write environment/Dockerfile",
            ) from error
    env = {**(recipe.env or {}), **settings.environment.env}
    return Recipe(recipe.image, recipe.steps, settings.environment.workdir or recipe.folder, env)
