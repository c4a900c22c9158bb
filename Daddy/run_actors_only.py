"""Entry: a laptop plays the newest shared version, and with `--contribute` learns on from it.

Takes only complete, verified versions, says which one it plays, leaves one core and 4 GB to the
person, and ends on Ctrl-C with one line and nothing left behind. Parses and wires; decides nothing.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from Daddy import actor, laptop
from Daddy.core.assists import strange
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import UsageError, WeightsError, run_entry
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stopping import StopSignal
from Daddy.core.terms import GAME, agreed, differing, from_pairs, unknown
from Daddy.hardware.profile import load_profile, save_profile
from Daddy.hardware.recommend import recommend
from Daddy.learning.prepare import prepare
from Daddy.visit import Limits, Visit
from Daddy.weights.laptop.pulled_version import Verified, newest_verified, refuse_strange
from Daddy.workloads import WORKLOADS

LOOK_EVERY_S = 0.5
ENDLESS = {"total_steps": 0, "checkpoint_interval": 1 << 40}
"""A laptop leaves when its person wants, and keeps no checkpoints: it begins with the newest."""
AUTO = 0
"""`--num-envs auto` as a number."""


def make_parser() -> argparse.ArgumentParser:
    """The command line, as the guide has it."""
    parser = argparse.ArgumentParser(
        prog="run_actors_only",
        description="Play the newest shared weights here; learn from them and contribute if asked.",
    )
    flag = parser.add_argument
    flag("--shared-dir", type=Path, default=Path("~/shared_weights"),
         help="folder that sync_weights.sh pulls into (~/shared_weights)")  # fmt: skip
    flag("--num-envs", type=_count, default=AUTO, metavar="auto|N",
         help="environments; auto: the measured profile, else the guide's table")  # fmt: skip
    flag("--autotune", action="store_true", help="measure this machine first and remember it")
    flag("--contribute", action="store_true", help="learn here and hand in what was learnt")
    flag("--no-push", action="store_true",
         help="leave in the outbox what was learnt: another terminal pushes it")  # fmt: skip
    flag("--stream", action="store_true", help="show the play in the viewer on this machine")
    flag("--stream-port", type=int, default=9999, help="the viewer's port (9999)")
    flag("--wait-seconds", type=float, default=120.0, help="how long to wait for a version (120)")
    flag("--max-steps", type=int, default=0, help="end after so many environment steps (0: never)")
    flag("--max-seconds", type=float, default=0.0, help="end after so many seconds (0: never)")
    flag("--run-dir", type=Path, default=Path("runs/laptop"),
         help="events, logs and checkpoints of this laptop (runs/laptop)")  # fmt: skip
    laptop.add_flags(parser)
    return parser


def _count(text: str) -> int:
    """``auto`` or a whole number of at least one."""
    if text == "auto":
        return AUTO
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(
        f"--num-envs {text}: that many environments cannot be played",
        "give a whole number of at least 1, or auto",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 ended as asked, 2 usage, 3 device, 6 no usable weights, 7 ROM, 9 files."""
    args = make_parser().parse_args(argv)
    signals, clock = StopSignal().install(), SystemClock()
    prepare()
    user_id = laptop.user_name(args.user_id)
    shared = args.shared_dir.expanduser().resolve()
    found = wait_for_version(shared, args.wait_seconds, clock, signals)
    if found is None:
        return _goodbye(f"ended ({signals.stop_reason()}): no version had come yet")
    terms = from_pairs(found.frame.terms)
    config = laptop.game_config(args, found.frame.workload, terms)
    config = config.model_copy(update={"run_dir": str(args.run_dir.expanduser().resolve())})
    _refuse_other_assists(config, found, contribute=args.contribute)
    _compare(config, terms, found, contribute=args.contribute)
    config = _with_count(*as_measured(args, config, user_id, clock))
    limits = Limits(args.max_steps, args.max_seconds, clock, signals)
    visit = Visit(
        config=config,
        user_id=user_id,
        shared=shared,
        run=RunPaths(args.run_dir.expanduser().resolve()),
        run_name=found.frame.run,
        limits=limits,
        clock=clock,
        contribute=args.contribute,
        push=args.contribute and not args.no_push,
        niceness=args.nice,
        stream_port=args.stream_port if args.stream else None,
    )
    return _goodbye(actor.visit(visit))


def _refuse_other_assists(config: Config, found: Verified, *, contribute: bool) -> None:
    """Before anything is measured: neither may have more than the other takes."""
    refuse_strange(found.frame, config.training.assists)
    more = strange(config.training.assists, found.frame.assists)
    if contribute and more:
        raise UsageError(
            f"run {found.frame.run!r} would refuse what is learnt with the assists {more}",
            "leave --contribute away, or play with the run's own assists",
        )


def _compare(
    config: Config, terms: Mapping[str, str], found: Verified, *, contribute: bool
) -> None:
    """What the run says and this program cannot take over: said, and refused where it matters."""
    run, release = found.frame.run, found.frame.release or "that its owner names"
    fix = f"install the release {release}: ask the run's owner for its code"
    if strangers := unknown(config, terms):
        print(f"run {run!r} has settings that this program does not know: {', '.join(strangers)}")
        print(f"  what to do: {fix}", flush=True)
    row = WORKLOADS[config.training.workload]
    differ = differing(terms, agreed(config, row.facts(config)))
    game = [one for one in differ if one.startswith(f"{GAME} ")]
    if not differ:
        return
    if contribute:
        again = "name the run's own game: --rom FILE or --cartridge" if game else fix
        raise UsageError(
            f"run {run!r} would refuse what is learnt here: {'; '.join(differ)}", again
        )
    print(f"playing otherwise than run {run!r}: {'; '.join(differ)}", flush=True)


def _goodbye(text: str) -> int:
    print(text, flush=True)
    return 0


def wait_for_version(
    shared: Path, patience_s: float, clock: Clock, signals: StopSignal
) -> Verified | None:
    """The newest verified version, waited for; None when asked to leave meanwhile.

    WeightsError when none came in time or what is there is damaged.
    """
    deadline = clock.monotonic() + patience_s
    told = False
    while (found := newest_verified(shared)) is None:
        if signals.stop_reason():
            return None
        if clock.monotonic() >= deadline:
            raise WeightsError(f"no version of the weights came to {shared}", _how_to_pull(shared))
        if not told:
            print(f"no version in {shared} yet: waiting up to {patience_s:g} s")
            print(f"  what to do: {_how_to_pull(shared)}", flush=True)
            told = True
        clock.wait(threading.Event(), LOOK_EVERY_S)
    return found


def _how_to_pull(shared: Path) -> str:
    return f'in another terminal: ./Daddy/cluster/sync_weights.sh pull "" {shared} 5'


def as_measured(
    args: argparse.Namespace, config: Config, user_id: str, clock: Clock
) -> tuple[Config, int]:
    """Environments to play, said with the reason: as typed, as measured, or as the table has it.

    With a measured profile they are also run side by side as was found best.
    """
    folder = laptop.profile_folder(args)
    if args.autotune:
        measured = laptop.measure(config, user_id, laptop.QUICK_SECONDS_PER_COUNT, clock, args.nice)
        print(f"measured; stored in {save_profile(folder, measured)}")
    if args.num_envs != AUTO:
        return config, int(args.num_envs)
    facts = laptop.machine_facts()
    known = load_profile(folder, user_id)
    advice = recommend(facts)
    if known is not None and known.fits(facts) and known.workload == config.training.workload:
        print(f"{known.envs} environments: {known.reasons[-1]} (measured profile of {user_id})")
        print(f"  (the guide's table, without a measurement: {advice.envs})", flush=True)
        if config.training.vector_backend == "auto" and not config.training.vector_groups:
            config = laptop.in_the_way(config, known.backend, known.groups)
        return config, known.envs
    print(f"{advice.envs} environments: {'; '.join(advice.reasons)}")
    print(f"  (not measured; python -m Daddy.autotune --user-id {user_id} measures it)", flush=True)
    return config, advice.envs


def _with_count(config: Config, count: int) -> Config:
    """The configuration of a laptop: its own number of environments, and no end of its own."""
    changed = {"num_envs": count, "tensorboard": False, **ENDLESS}
    training = type(config.training).model_validate({**config.training.model_dump(), **changed})
    return config.model_copy(update={"training": training})


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
