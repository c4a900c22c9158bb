"""Numbers that a person types: as options, in files and in the environment."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy import autotune, play, run_actors_only, train_slim
from Daddy.cluster.orchestrator import run_controller
from Daddy.core.errors import ConfigError, UsageError
from Daddy.core.load_config import load_config, load_release_config
from Daddy.core.settings import Config, SettingsSection
from Daddy.streaming import relay, tunnel_server
from Daddy.weights import friends, mirror, model
from scripts.demonstration import __main__ as demonstration

SENSELESS = ("nan", "inf", "-inf", "1e400", "-1", "1e30", "9" * 30, "true", "")
PARSERS = {
    "demo": demonstration._parser,
    "autotune": autotune.make_parser,
    "friends": friends.make_parser,
    "mirror": mirror.make_parser,
    "model": model.make_parser,
    "play": play.make_parser,
    "play evaluate": play.make_evaluate_parser,
    "relay": relay._parser,
    "run_actors_only": run_actors_only.make_parser,
    "run_controller": run_controller._parser,
    "train_slim": train_slim.make_parser,
}
INNER = {"--die-with-parent", "--ready-fd"}
"""Numbers that one program gives another."""


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)
        else:
            yield action


def numbers(name: str) -> list[argparse.Action]:
    """The options that take a number and are no setting, whose values `Config` judges."""
    parsed = actions(PARSERS[name]())
    found = [action for action in parsed if action.type is not None and action.choices is None]
    taken = [
        action
        for action in found
        if action.type in (int, float) or "number" in getattr(action.type, "__qualname__", "")
    ]
    return [a for a in taken if "." not in a.dest and not INNER & {*a.option_strings}]


@pytest.mark.parametrize("name", PARSERS)
def test_no_option_takes_a_senseless_number(name: str) -> None:
    for action in numbers(name):
        for text in SENSELESS:
            with pytest.raises((ValueError, argparse.ArgumentTypeError)):
                pytest.fail(f"{action.option_strings} took {action.type(text)}")  # type: ignore[operator]


def test_the_options_were_found() -> None:
    flags = {flag for name in PARSERS for each in numbers(name) for flag in each.option_strings}
    assert {"--seconds", "--speed", "--jobs", "--port", "--fps", "--every", "--days"} <= flags
    assert {"--wait-seconds", "--max-steps", "--lines", "--slot", "--job-rank"} <= flags


@pytest.mark.parametrize("flag", ["--port", "--top-k", "--fps", "--width", "--wait", "--seconds"])
def test_the_viewer_refuses_them_too(flag: str) -> None:
    for text in SENSELESS:
        with pytest.raises((SystemExit, UsageError)):
            tunnel_server.main([f"{flag}={text}", "--headless"])


def test_the_bounds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        play.main(["--random", "--seconds", "nan"])
    assert caught.value.code == 2
    assert "--seconds: 'nan' is not a number from 0.001 to 3.1536e+07" in capsys.readouterr().err


def test_laptops_have_a_largest_number_of_environments() -> None:
    for text in (*SENSELESS, "0", "4097"):
        with pytest.raises(UsageError, match="1 to 4,096, or auto"):
            run_actors_only.make_parser().parse_args([f"--num-envs={text}"])


def number_keys() -> Iterator[str]:
    for section, outer in Config.model_fields.items():
        for name, field in getattr(outer.annotation, "model_fields", {}).items():
            if field.annotation in (int, float, int | None, float | None):
                yield f"{section}.{name}"


NUMBERS = [*number_keys()]


@pytest.mark.parametrize("key", NUMBERS)
def test_no_setting_takes_a_senseless_number_from_anywhere(key: str, tmp_path: Path) -> None:
    section, _, name = key.rpartition(".")
    file, frozen = tmp_path / "c.json", tmp_path / "release.json"
    for value in ("NaN", "Infinity", "-Infinity", "1e400", "true", "false", "1e30", "-1e30"):
        file.write_text(f'{{"{section}": {{"{name}": {value}}}}}')
        frozen.write_text(file.read_text())
        for load, path in ((load_config, file), (load_release_config, frozen)):
            with pytest.raises(ConfigError):
                load(path)
    for text in ("nan", "inf", "-inf", "1e400", "true", "9" * 30, "-" + "9" * 30):
        variable = {f"DADDY_{section}__{name}".upper(): text}
        with pytest.raises(ConfigError, match=name):
            load_config(None, {}, variable)
        with pytest.raises(ConfigError, match=name):
            load_config(None, {key: text})


def test_the_numbers_were_found_and_the_error_names_the_value() -> None:
    assert len(NUMBERS) > 40
    with pytest.raises(ConfigError, match=r"training.num_envs: true is not a number"):
        load_config(None, {"training.num_envs": True})
    with pytest.raises(ConfigError, match=r"reward.badge: Input should be a finite number"):
        load_config(None, {"reward.badge": float("nan")})
    with pytest.raises(ConfigError, match="longer than a year"):
        load_config(None, {"slurm.time_limit": "9999999:00:00"})


def settings_of_text() -> list[str]:
    """The settings that take text or a list of texts, by dotted key."""
    kinds = {str, str | None, list[str]}
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    inner = [
        f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, SettingsSection)
        for key, field in section.model_fields.items()
        if field.annotation in kinds
    ]
    return [*(name for name, kind in sections.items() if kind in kinds), *inner]


@pytest.mark.parametrize(
    "text", ["a\nb", "a\rb", "\x1b[2J", "a\tb", "a\x7fb", "a\x85b", "a\u2028b", "\udcff"]
)
def test_no_setting_takes_a_control_character(text: str) -> None:
    keys = [key for key in settings_of_text() if key != "slurm.setup"]  # lines of a script
    assert {"run_dir", "slurm.partition", "slurm.options", "controller.notify"} <= {*keys}
    for key in keys:
        for given in (text, [text]):
            with pytest.raises(ConfigError) as refused:
                load_config(None, {key: given})
            assert key in refused.value.message
            assert text not in refused.value.message


def test_setup_may_have_lines_and_tabs() -> None:
    setup = ["if true; then\n\tmodule load cuda\nfi"]
    assert load_config(None, {"slurm.setup": setup}).slurm.setup == setup
