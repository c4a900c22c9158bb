"""Loads the configuration: merges files, site profile, environment and flags into a `Config`.

Later layers win: defaults, config file, site profile, environment (``DADDY_ROM``,
``DADDY_TRAINING__NUM_ENVS`` and so on), flags. The values of a training profile belong to the layer
that names it, and a site's profile yields to the config file. All errors are reported at once, an
unknown key with the nearest valid one.
"""

import difflib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from Daddy.core.arguments import did_you_mean
from Daddy.core.atomic_files import canonical_json, read_json
from Daddy.core.errors import ConfigError, FileError
from Daddy.core.rom_identity import ENVIRONMENT_VARIABLE
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import (
    REMOVED,
    REMOVED_VALUES,
    RENAMED,
    RENAMED_VALUES,
    SHIPPED_VALUES,
    WITHOUT_MEANING,
    Config,
    profile_values,
)
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths

CHECKOUT = Path(__file__).resolve().parents[2]
DEFAULT_CONFIG = CHECKOUT / "Daddy" / "cluster" / "cluster_config.json"
SITES = CHECKOUT / "cluster" / "sites"
RENAMED_SITES = {"sandbox": "testbed"}
"""Site profiles: name in the release before → name now; read for one release."""
_PREFIX = "DADDY_"
_TOP_LEVEL_VARIABLES = ("DADDY_RUN_DIR", "DADDY_RUN_NAME")

Settings = dict[str, Any]


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    site: str | None = None,
    *,
    begins: bool = False,
) -> Config:
    """Return the effective configuration. ConfigError with everything that is wrong.

    ``overrides`` are flags by dotted key (``training.device``); None values count as not given.
    ``site`` names a profile in ``cluster/sites``. ``begins``: a new run is about to start, so a
    value that no longer exists is refused; for an existing run it is ignored with a warning.
    """
    environ = environ or {}
    file = path or DEFAULT_CONFIG
    layers = [(str(file), _read_config(file))]
    name = site or environ.get("DADDY_SITE")
    if name:
        name = RENAMED_SITES.get(name, name)
        layers.append((f"site {name}", _read_site(name)))
    layers.append(("environment", _from_environment(environ)))
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    layers.append(("flags", flags))
    merged: Settings = {}
    for source, layer in layers:
        given = _translate(_flatten(layer), begins=begins)
        profile = profile_values(given.get("training.profile"))
        implied = {f"training.{key}": value for key, value in profile.items()}
        if source == f"site {name}":  # chosen for a cluster, not for this run
            implied = {key: value for key, value in implied.items() if key not in merged}
        merged.update({**implied, **given})
    sources = " + ".join(source for source, layer in layers if layer)
    return _absolute(_check(_unflatten(merged), sources), file.resolve().parent)


def with_values_beneath(config: Config, values: Mapping[str, object]) -> Config:
    """Return the configuration with ``values`` for the dotted keys that nobody set. ConfigError."""
    given = _flatten(config.model_dump(exclude_unset=True))
    return with_values(config, {**values, **given}, "the configuration with the tuned recipe")


def with_values(config: Config, values: Mapping[str, object], source: str) -> Config:
    """Return the configuration with ``values`` of ``source``, by dotted key. ConfigError."""
    given = _flatten(config.model_dump(exclude_unset=True))
    return _check(_unflatten({**given, **values}), source)


def unusual_settings(config: Config, kept: Collection[str], left_out: Collection[str]) -> Settings:
    """Return, as in a config file, the settings in ``kept`` and those that differ from defaults.

    All by dotted key; ``left_out`` wins.
    """
    usual = _flatten(Config().model_dump(mode="json"))
    given = _flatten(config.model_dump(mode="json"))
    named = {key for key in given if key in kept or given[key] != usual[key]}
    return _unflatten({key: given[key] for key in given if key in named.difference(left_out)})


def load_release_config(path: Path) -> Config:
    """Return a release's merged configuration, without keys that no longer exist. ConfigError."""
    flat = _flatten(read_settings_file(path, "config file"))
    valid = {
        key: value
        for key, value in flat.items()
        if not _is_below(key, REMOVED) and not _remedy(key, value)
    }
    return _check(_unflatten(_with_values_of_today(valid)), str(path))


def run_paths(config: Config) -> RunPaths:
    """Return the absolute paths of the run."""
    return RunPaths(Path(config.run_dir).expanduser().resolve())


def shared_paths(config: Config) -> SharedPaths:
    """Return the absolute paths of the shared weights, by default in the run directory.

    With ``collaboration.join``, they are our own folder's and those of the joined run's owner.
    """
    shared, join = config.collaboration.shared_dir, config.collaboration.join
    root = Path(shared).expanduser().resolve() if shared else run_paths(config).shared_weights
    return joined_paths(root, Path(join).expanduser().resolve()) if join else SharedPaths(root)


def config_to_json(config: Config) -> bytes:
    """Encode a configuration as JSON; equal settings have equal bytes."""
    return canonical_json(config.model_dump(mode="json"))


def valid_keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Yield every valid key, dotted."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from valid_keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def read_settings_file(path: Path, kind: str) -> Settings:
    """Return a file of settings; ``kind`` names it in errors. ConfigError."""
    try:
        return read_json(path)
    except FileNotFoundError:
        raise ConfigError(f"there is no {kind} at {path}", f"name an existing {kind}") from None
    except FileError as error:
        raise ConfigError(error.message, error.fix) from error


def _read_site(name: str) -> Settings:
    known = sorted(path.stem for path in SITES.glob("*.json"))
    if not (SITES / f"{name}.json").exists():
        fix = f"use one of: {', '.join(known)}{did_you_mean(name, known)}"
        raise ConfigError(f"there is no site profile at {SITES / name}.json", fix)
    return read_settings_file(SITES / f"{name}.json", "site profile")


def _read_config(path: Path) -> Settings:
    """Read a config file, the shipped one without its unchanged lines of `SHIPPED_VALUES`.

    Other lines of that file do not matter: people write their partition and ROM into it.
    """
    settings = _flatten(read_settings_file(path, "config file"))
    if path.resolve() != DEFAULT_CONFIG:
        return settings
    return {key: value for key, value in settings.items() if SHIPPED_VALUES.get(key) != value}


def _from_environment(environ: Mapping[str, str]) -> Settings:
    """Read ``DADDY_ROM``, ``DADDY_RUN_DIR``, ``DADDY_SECTION__KEY``; ignore other variables."""
    rom = environ.get(ENVIRONMENT_VARIABLE)  # relative to the working folder
    flat: Settings = {"training.rom": str(Path(rom).expanduser().absolute())} if rom else {}
    for name, value in environ.items():
        if name.startswith(_PREFIX) and ("__" in name or name in _TOP_LEVEL_VARIABLES):
            flat[name.removeprefix(_PREFIX).lower().replace("__", ".")] = value
    return flat


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> Settings:
    flat: Settings = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _unflatten(flat: Mapping[str, Any]) -> Settings:
    nested: Settings = {}
    for key, value in flat.items():
        *sections, last = key.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return nested


def _translate(flat: Settings, *, begins: bool) -> Settings:
    """Rename keys and values of before, and drop keys without effect, with one warning.

    With ``begins``, a value that no longer exists is a ConfigError instead.
    """
    gone = {key: value for key, value in flat.items() if _remedy(key, value)}
    for key, value in gone.items() if begins else ():
        raise ConfigError(f"{key} {value!r} no longer exists", _remedy(key, value))
    useless = [key for key in flat if _is_below(key, (*WITHOUT_MEANING, *REMOVED))]
    dropped = [*gone, *useless]
    rest = _with_values_of_today({key: flat[key] for key in flat if key not in dropped})
    names = ", ".join([*(f"{key} {value!r}" for key, value in gone.items()), *useless])
    said = [f"these settings have no effect: {names}"] if dropped else []
    said += [
        f"{key} {flat[key]!r} is read as {rest[key]!r}" for key in rest if rest[key] != flat[key]
    ]
    if said:
        print(f"warning: {'; '.join(said)}", file=sys.stderr)
    renamed = {RENAMED[key]: value for key, value in rest.items() if key in RENAMED}
    return {**renamed, **{key: value for key, value in rest.items() if key not in RENAMED}}


def _with_values_of_today(flat: Settings) -> Settings:
    """Replace values by their names of today."""
    return {
        key: RENAMED_VALUES.get((key, value), value) if isinstance(value, str) else value
        for key, value in flat.items()
    }


def _is_below(key: str, sections: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{section}.") for section in sections)


def _remedy(key: str, value: object) -> str:
    return REMOVED_VALUES.get((key, value), "") if isinstance(value, str) else ""


def _check(settings: Settings, source: str) -> Config:
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        lines = [_explain(problem["loc"], problem["msg"]) for problem in error.errors()]
        raise ConfigError(
            f"{len(lines)} setting(s) of {source} cannot be used:\n  " + "\n  ".join(lines),
            "correct these settings; docs/configuration.md lists every key",
        ) from None


def _explain(location: Sequence[int | str], message: str) -> str:
    key = ".".join(str(part) for part in location) or "config"
    if message != "Extra inputs are not permitted":
        return f"{key}: {message.removeprefix('Value error, ')}"
    return f"{key}: unknown key; the nearest valid one is {_nearest(key)}"


def _nearest(key: str) -> str:
    """Return a key of that name in another section, or the section or key most alike."""
    keys = list(valid_keys())
    moved = [other for other in keys if other.rpartition(".")[2] == key.rpartition(".")[2]]
    alike = difflib.get_close_matches(key, Config.model_fields, n=1, cutoff=0.8)
    return (moved or alike or difflib.get_close_matches(key, keys, n=1, cutoff=0.0))[0]


def _absolute(config: Config, folder: Path) -> Config:
    """Make paths relative to the config file absolute, because jobs run in other folders."""
    rom, start = config.training.rom, config.training.start
    paths = {}
    if rom:
        paths["rom"] = _resolved(rom, folder)
    if start.endswith(".state") or "/" in start:
        paths["start"] = _resolved(start, folder)
    return config.model_copy(update={"training": config.training.model_copy(update=paths)})


def _resolved(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())
