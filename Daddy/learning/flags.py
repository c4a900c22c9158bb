"""The learner's command line: the public guide's flags, explained by the settings they set.

A flag's help is its setting's description; no meaning and no default is written twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from Daddy.core.settings import Collaboration, Config, Section, Training

_SECTIONS: dict[str, type[Section]] = {"training": Training, "collaboration": Collaboration}
_NUMBERS = (
    *("num_envs", "total_steps", "batch_size", "seed", "stream_port"),
    *("max_runtime_seconds", "checkpoint_interval"),
)
_SWITCHES = ("stream", "allow_unknown_rom")


def make_parser(workloads: Sequence[str]) -> argparse.ArgumentParser:
    """A parser whose settings come out under their dotted names, None where not given."""
    parser = argparse.ArgumentParser(
        prog="train_slim",
        description="Train one learner of a run. It goes on where its slot stopped. "
        "Exit codes: 0 total_steps reached, 10 drained (continue me), 11 no free slot, "
        "93 do not restart me; others as in docs/exit-codes.md.",
    )
    flag = parser.add_argument
    flag("--config", type=Path, metavar="FILE", help="config file (the shipped one)")
    flag("--site", metavar="NAME", help="site profile in cluster/sites")
    flag("--attempt", metavar="TOKEN", help="given by the controller: config is a release's")
    flag("--job-rank", type=_slot, metavar="K", help="fill this slot (the first free one)")
    flag("--resume", action="store_true", help="accepted: resuming is what always happens")
    flag("--cartridge", action="store_true", help="play the free cartridge, whatever is configured")
    _setting(parser, "run_dir", metavar="DIR")
    _setting(parser, "collaboration.shared_dir", metavar="DIR")
    _setting(parser, "training.workload", choices=sorted(workloads))
    _setting(parser, "training.device", metavar="DEVICE")
    _setting(parser, "training.rom", type=_absolute, metavar="FILE")
    _setting(parser, "training.start", type=_name_or_file, metavar="NAME|FILE")
    _setting(parser, "training.assists", metavar="NAMES")
    for name in _NUMBERS:
        _setting(parser, f"training.{name}", type=int, metavar="N")
    for name in _SWITCHES:
        _setting(parser, f"training.{name}", action=argparse.BooleanOptionalAction)
    return parser


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings among parsed flags, by dotted key, as `core.config.load` takes them."""
    return {key: value for key, value in vars(args).items() if "." in key or key == "run_dir"}


def _setting(parser: argparse.ArgumentParser, key: str, **how: Any) -> None:
    section, _, name = key.rpartition(".")
    model: type[Section] = _SECTIONS[section] if section else Config
    description = model.model_fields[name].description
    parser.add_argument(
        f"--{name.replace('_', '-')}", dest=key, default=None, help=description, **how
    )


def _slot(text: str) -> int:
    """A slot's number; ValueError, which argparse tells, for a negative one."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _absolute(text: str) -> str:
    """A path typed at a prompt is relative to where it is typed, not to the config file."""
    return str(Path(text).expanduser().absolute())


def _name_or_file(text: str) -> str:
    """A name stays as it is; what looks like a path is one, relative to where it is typed."""
    return _absolute(text) if "/" in text or text.endswith(".state") else text
