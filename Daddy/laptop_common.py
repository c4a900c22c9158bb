"""Parts that `run_actors_only` and `autotune` share: flags, machine facts, measurement, session.

Both programs leave one core to the person and run at low priority.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core import host_and_processes
from Daddy.core import load_config as configuration
from Daddy.core.agreed_settings import adopted_settings
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, UsageError
from Daddy.core.name_validation import to_peer
from Daddy.core.rom_identity import ENVIRONMENT_VARIABLE
from Daddy.core.run_paths import RunPaths
from Daddy.core.saved_cluster import SETUP, read_saved_cluster, settings_path
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import StopSignal
from Daddy.hardware import env_count_sweep, recommend_envs
from Daddy.hardware.machine_profile import Profile, default_folder
from Daddy.hardware.recommend_envs import CORES_FOR_THE_PERSON, GIB, MachineFacts, Measurement
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

HORIZON = 16
"""Steps per environment between two readings of the clock while measuring."""
NICENESS = 10
"""Default niceness: a busy editor gets nine tenths of a shared core."""
ASSISTS_HELP = "assists: none, peers, or names with commas between (docs/assists.md)"
SECONDS_PER_COUNT = 3.0
QUICK_SECONDS_PER_COUNT = 0.6


@dataclass
class LaptopLimits:
    """Stands in for a slot's lease on a laptop; play ends on a signal or after steps or seconds."""

    max_steps: int
    max_seconds: float
    clock: Clock
    signals: StopSignal
    term: int = 1
    steps: int = 0
    started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = self.clock.monotonic()

    def held(self) -> bool:
        """Return True: a laptop has no slot that it could lose."""
        return True

    def beat(self, data: Mapping[str, object]) -> None:
        """Store ``env_steps`` of `data`; `stop_reason` compares them with the limit."""
        self.steps = int(str(data.get("env_steps", self.steps)))

    def stop_reason(self) -> str | None:
        """Return the reason to stop (a limit is reached or a signal came), or None."""
        if 0 < self.max_steps <= self.steps:
            return f"{self.max_steps} steps, as asked"
        if 0 < self.max_seconds <= self.clock.monotonic() - self.started_at:
            return f"{self.max_seconds:g} s, as asked"
        return self.signals.stop_reason()


@dataclass(frozen=True)
class LaptopSession:
    """Holds the settings of a laptop's session; ``groups`` of environments (0: automatic).

    ``contribute``: learn and queue contributions. ``push``: upload them.
    """

    config: Config
    groups: int
    user_id: str
    shared: Path
    run: RunPaths
    clock: Clock
    contribute: bool
    push: bool


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the user id, the game, the assists, the device and the niceness."""
    flag = parser.add_argument
    flag("--user-id", default="", help="your name in the run (that of setup, or this host's)")
    flag("--profile-dir", type=Path,
         help="folder of profiles that autotune wrote (~/.config/daddy/profiles)")  # fmt: skip
    flag("--rom", help="path of your PokemonRed.gb (DADDY_ROM; if unset, the cartridge)")
    flag("--cartridge", action="store_true", help="play the free game that Daddy ships")
    flag("--allow-unknown-rom", action="store_true", help="accept a ROM of unknown SHA-1")
    flag("--assists", metavar="NAMES", help=ASSISTS_HELP)
    flag("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"),
         help="device that runs the network (auto)")  # fmt: skip
    flag("--nice", type=int, default=NICENESS, choices=range(20), metavar="0-19",
         help=f"niceness: a higher one leaves more CPU time to others ({NICENESS})")  # fmt: skip


def peer_name(text: str) -> str:
    """Turn `text` (if empty: the name of ``setup``, or this host's) into a peer name. UsageError.

    Print a change, and a name for which ``setup`` made no key.
    """
    saved = ""
    with suppress(ConfigError):  # told where the login is needed
        saved = read_saved_cluster(settings_path(os.environ, Path.home())).get("peer", "")
    name = to_peer(text or saved or host_and_processes.host_name())
    if text and name != text:
        print(f"user id {text!r} is written {name!r}: peers use a-z, 0-9 and - only")
    if saved and name != saved:
        print(f"user id {name!r} is not {saved!r}, of which setup made this laptop's push key")
        print(f"  what to do: leave --user-id out, or SYNC_USER_ID={name} {SETUP}")
    return name


def profile_folder(args: argparse.Namespace) -> Path:
    """Return the folder of measured profiles: --profile-dir, or the default folder."""
    chosen: Path | None = args.profile_dir
    return chosen.expanduser() if chosen else default_folder(os.environ, Path.home())


def game_config(
    args: argparse.Namespace, workload: str, terms: Mapping[str, str] | None = None
) -> Config:
    """Return the default configuration, changed by `terms`, then by flags and environment.

    Raises UsageError and ConfigError. `terms`: settings that all peers of the played run share.
    """
    if args.cartridge and args.rom:
        raise UsageError("--cartridge and --rom exclude each other", "give one of the two")
    if workload not in WORKLOADS:
        raise UsageError(f"unknown workload {workload!r}", f"one of: {', '.join(WORKLOADS)}")
    default = configuration.load_config(None, {"training.workload": workload})
    overrides = {
        **adopted_settings(default, terms or {}),
        "training.workload": workload,
        "training.device": args.device,
        "training.rom": _rom(args),
        "training.allow_unknown_rom": args.allow_unknown_rom or None,
        "training.assists": args.assists,
    }
    return configuration.load_config(None, overrides, os.environ)


def _rom(args: argparse.Namespace) -> str | None:
    """Return the absolute path of the ROM that the flags or DADDY_ROM name, or None."""
    given = cartridge_path() if args.cartridge else args.rom or os.environ.get(ENVIRONMENT_VARIABLE)
    return str(Path(given).expanduser().resolve()) if given else None


def machine_facts() -> MachineFacts:
    """Measure this machine: usable cores, memory in bytes, and True if it has a GPU."""
    from Daddy.learning.device import has_gpu

    return MachineFacts(
        host_and_processes.usable_cores(), host_and_processes.memory_bytes()[0], has_gpu()
    )


def cores_for_us() -> int:
    """Return the number of cores for environments and network: all usable ones but one."""
    return max(1, host_and_processes.usable_cores() - CORES_FOR_THE_PERSON)


def with_training(config: Config, **changes: object) -> Config:
    """Return the configuration with changed ``training`` settings. Raises ValidationError."""
    training = type(config.training).model_validate({**config.training.model_dump(), **changes})
    return config.model_copy(update={"training": training})


def make_environments(config: Config, count: int, groups: int = 0) -> VectorEnv:
    """Open `count` environments on all cores but one; the caller closes the returned vector."""
    from Daddy.learning.make_vector import make_vector

    training = config.training
    make_env = WORKLOADS[training.workload].make_env(config)
    return make_vector(make_env, count, training.vector_backend, cores_for_us(), groups)


@contextmanager
def open_player(config: Config, groups: int, count: int) -> Iterator[Callable[[], int]]:
    """Yield a function that plays 16 steps in each of `count` environments and counts the steps."""
    from Daddy.core.hyperparameters import resolve_settings
    from Daddy.learning.device import resolve_device
    from Daddy.learning.play_loop import BenchmarkPlayer

    torch_device = resolve_device(config.training.device)
    sizes = {"num_envs": count, "horizon": HORIZON, "batch_size": HORIZON}
    training = config.training.model_copy(update=sizes)
    with closing(make_environments(config, count, groups)) as vector:
        workload = WORKLOADS[training.workload]
        policy = workload.make_policy(training, vector.observation_space, vector.action_space)
        settings = resolve_settings(training, torch_device.type)
        yield BenchmarkPlayer(vector, policy, settings, torch_device, training.seed).step


def measure_machine(
    config: Config, user_id: str, seconds: float, clock: Clock, niceness: int = NICENESS
) -> Profile:
    """Measure speed and memory by number of environments; print all and return a profile."""
    from Daddy.learning.device import limit_threads

    facts = machine_facts()
    host_and_processes.lower_priority(niceness)
    limit_threads(1)
    _print(f"measuring {config.training.workload} on {facts.cores} cores, one of them left to you,")
    _print(f"  {facts.memory_bytes / GIB:.1f} GiB of memory, 4 GiB of it left to you")
    _print("  environments    steps/s   memory")
    resident = partial(host_and_processes.resident_bytes, os.getpid())
    counts = recommend_envs.counts_to_try(facts)
    player = partial(open_player, config, 0)
    rows = env_count_sweep.sweep_counts(counts, player, resident, clock, seconds, _print_row)
    advice = recommend_envs.recommend_measured(facts, rows)
    usual = next(row for row in rows if row.envs == advice.envs)
    others = []
    for groups in (1, 2, 4):
        player = partial(open_player, config, groups)
        measured = env_count_sweep.measure_count(advice.envs, player, resident, clock, seconds)
        others.append(replace(measured, groups=groups))
        _print_row(others[-1])
    best, why = recommend_envs.choose_groups(facts, usual, others)
    table = recommend_envs.recommend(facts).envs
    beside = f"the guide's table, without a measurement: --num-envs {table}"
    return Profile(
        user_id=user_id,
        facts=facts,
        workload=config.training.workload,
        groups=best.groups,
        measured_at=round(clock.now(), 3),
        rows=(*rows, *others),
        envs=advice.envs,
        reasons=(beside, why, *advice.reasons),
    )


def _print_row(row: Measurement) -> None:
    groups = f"   {row.groups} groups" if row.groups else ""
    _print(f"  {row.envs:12d} {row.steps_per_s:10.0f} {row.resident_bytes / GIB:6.2f} GiB{groups}")


_print = partial(print, flush=True)
