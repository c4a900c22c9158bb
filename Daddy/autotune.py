"""Entry: how many environments fit this machine? Measure with the real thing and remember it.

`python -m Daddy.autotune --user-id $(hostname)` stores a profile that `run_actors_only --num-envs
auto` uses. What is measured is what will run: the game, the network, the backend, one core less
than there are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from Daddy import laptop_cli
from Daddy.core.clock import SystemClock
from Daddy.core.errors import run_entry
from Daddy.hardware.machine_profile import save_profile
from Daddy.learning.preloading import prepare_imports
from Daddy.workloads import WORKLOADS


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="autotune",
        description="Measure how many environments this machine runs well, and remember it.",
    )
    laptop_cli.add_flags(parser)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time, rougher")
    parser.add_argument(
        "--workload", choices=tuple(WORKLOADS), default="pokemon_red", help="what is played"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, store, tell. Codes: 0 done, 2 usage, 3 device, 7 ROM, 9 the profile folder."""
    args = make_parser().parse_args(argv)
    prepare_imports()
    user_id = laptop_cli.peer_name(args.user_id)
    folder = laptop_cli.profile_folder(args)
    folder.mkdir(parents=True, exist_ok=True)
    seconds = laptop_cli.QUICK_SECONDS_PER_COUNT if args.quick else laptop_cli.SECONDS_PER_COUNT
    config = laptop_cli.game_config(args, args.workload)
    profile = laptop_cli.measure_machine(config, user_id, seconds, SystemClock(), args.nice)
    path = save_profile(folder, profile)
    print(f"\nrecommended: --num-envs {profile.envs}")
    print("\n".join(f"  {reason}" for reason in profile.reasons))
    print(f"stored in {path}; --num-envs auto of run_actors_only uses it")
    return 0


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
