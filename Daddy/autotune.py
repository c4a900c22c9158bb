"""Entry: measures the number of environments that this machine runs well, and stores it.

`python -m Daddy.autotune --user-id $(hostname)` stores a profile that `run_actors_only --num-envs
auto` uses. The measurement uses the real game, network and backend, on all cores but one.
"""

import argparse
import sys
from collections.abc import Sequence

from Daddy import laptop_common
from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.hardware.machine_profile import save_profile
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.workloads import WORKLOADS


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    text = "Measure the number of environments that this machine runs well, and store it."
    parser = ArgumentParser(prog="autotune", description=text)
    laptop_common.add_flags(parser)
    parser.add_argument(
        "--quick", action="store_true", help="measure each number for 0.6 s, not 3 s"
    )
    parser.add_argument(
        "--workload",
        choices=tuple(WORKLOADS),
        default="pokemon_red",
        help="environment (pokemon_red)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Store and print this machine's profile. Exit codes: 2 usage, 3 device, 7 ROM, 9 files."""
    args = make_parser().parse_args(argv)
    prepare_imports()
    user_id = laptop_common.peer_name(args.user_id)
    folder = laptop_common.profile_folder(args)
    folder.mkdir(parents=True, exist_ok=True)
    seconds = (
        laptop_common.QUICK_SECONDS_PER_COUNT if args.quick else laptop_common.SECONDS_PER_COUNT
    )
    config = laptop_common.game_config(args, args.workload)
    profile = laptop_common.measure_machine(config, user_id, seconds, SystemClock(), args.nice)
    path = save_profile(folder, profile)
    print(f"\nrecommended: --num-envs {profile.envs}")
    print("\n".join(f"  {reason}" for reason in profile.reasons))
    print(f"stored in {path}; --num-envs auto of run_actors_only uses it")
    return 0


def cli() -> None:
    """Run `main` and exit with its code."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
