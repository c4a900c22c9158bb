"""Entry: a laptop plays the newest shared version, and with `--contribute` learns on from it.

Takes only complete, verified versions, says which one it plays, leaves one core and 4 GB to the
person, and ends on Ctrl-C with one line and nothing left behind. Parses and wires; decides nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy import laptop_cli
from Daddy.background.laptop_tasks import run_laptop_tasks
from Daddy.core import child_process, machine_info
from Daddy.core.assist_rules import missing_assists, refuse_missing_assists
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import UsageError, WeightsError, run_entry
from Daddy.core.event_log import EventWriter
from Daddy.core.name_validation import new_incarnation
from Daddy.core.run_contract import (
    GAME,
    agreed_settings,
    contract_from_pairs,
    describe_differences,
    unknown_settings,
)
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_reasons import StopSignal
from Daddy.hardware.machine_profile import load_profile, save_profile
from Daddy.hardware.recommend_envs import recommend
from Daddy.laptop_cli import LaptopLimits, LaptopSession
from Daddy.learning.preloading import prepare_imports
from Daddy.weights.laptop.pulled_folder import VerifiedVersion, newest_verified
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.console import ConsoleReporter
    from Daddy.learning.interfaces import FrameSink
    from Daddy.learning.learner_parts import Surroundings

LOOK_EVERY_S = 0.5
ENDLESS: Mapping[str, object] = {"total_steps": 0, "checkpoint_interval": 1 << 40}
"""A laptop leaves when its person wants, and keeps no checkpoints: it begins with the newest."""
AUTO = 0
"""`--num-envs auto` as a number."""

RELAY_GRACE_S = 3.0


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
    laptop_cli.add_flags(parser)
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
    prepare_imports()
    user_id = laptop_cli.peer_name(args.user_id)
    shared = args.shared_dir.expanduser().resolve()
    found = wait_for_version(shared, args.wait_seconds, clock, signals)
    if found is None:
        print(f"ended ({signals.stop_reason()}): no version had come yet", flush=True)
        return 0
    terms = contract_from_pairs(found.head.terms)
    config = laptop_cli.game_config(args, found.head.workload, terms)
    run = RunPaths(args.run_dir.expanduser().resolve())
    config = config.model_copy(update={"run_dir": str(run.root)})
    _refuse_other_assists(config, found, contribute=args.contribute)
    _compare(config, terms, found, contribute=args.contribute)
    config, count, groups = choose_environments(args, config, user_id, clock)
    config = laptop_cli.with_training(config, num_envs=count, **ENDLESS)
    limits = LaptopLimits(args.max_steps, args.max_seconds, clock, signals)
    push = args.contribute and not args.no_push
    visit = LaptopSession(config, groups, user_id, shared, run, clock, args.contribute, push)
    with _frames(visit, args.stream_port if args.stream else None) as frames:
        print(play_session(visit, found.head.run, limits, frames, args.nice), flush=True)
    return 0


def _refuse_other_assists(config: Config, found: VerifiedVersion, *, contribute: bool) -> None:
    """Before anything is measured: neither may have more than the other takes."""
    refuse_missing_assists(found.label, found.head.assists, config.training.assists)
    more = missing_assists(config.training.assists, found.head.assists)
    if contribute and more:
        raise UsageError(
            f"run {found.head.run!r} would refuse what is learnt with the assists {more}",
            "leave --contribute away, or play with the run's own assists",
        )


def _compare(
    config: Config, terms: Mapping[str, str], found: VerifiedVersion, *, contribute: bool
) -> None:
    """What the run says and this program cannot take over: said, and refused where it matters."""
    run, release = found.head.run, found.head.release or "that its owner names"
    fix = f"install the release {release}: ask the run's owner for its code"
    if strangers := unknown_settings(config, terms):
        print(f"run {run!r} has settings that this program does not know: {', '.join(strangers)}")
        print(f"  what to do: {fix}", flush=True)
    row = WORKLOADS[config.training.workload]
    differ = describe_differences(terms, agreed_settings(config, row.facts(config)))
    game = [one for one in differ if one.startswith(f"{GAME} ")]
    if not differ:
        return
    if contribute:
        again = "name the run's own game: --rom FILE or --cartridge" if game else fix
        raise UsageError(
            f"run {run!r} would refuse what is learnt here: {'; '.join(differ)}", again
        )
    print(f"playing otherwise than run {run!r}: {'; '.join(differ)}", flush=True)


def wait_for_version(
    shared: Path, patience_s: float, clock: Clock, signals: StopSignal
) -> VerifiedVersion | None:
    """The newest verified version, waited for; None when asked to leave meanwhile.

    WeightsError when none came in time or what is there is damaged.
    """
    if (found := newest_verified(shared)) is not None:
        return found
    deadline = clock.monotonic() + patience_s
    fix = f'in another terminal: ./Daddy/cluster/sync_weights.sh pull "" {shared} 5'
    print(f"no version in {shared} yet: waiting up to {patience_s:g} s")
    print(f"  what to do: {fix}", flush=True)
    while found is None and not signals.stop_reason():
        if clock.monotonic() >= deadline:
            raise WeightsError(f"no version of the weights came to {shared}", fix)
        clock.wait(threading.Event(), LOOK_EVERY_S)
        found = newest_verified(shared)
    return found


def choose_environments(
    args: argparse.Namespace, config: Config, user_id: str, clock: Clock
) -> tuple[Config, int, int]:
    """Return the environments to play and their groups (0: choose), and print the reason.

    As typed, as measured, or as the table has it. With a measured profile the environments are
    also run side by side as was found best.
    """
    folder = laptop_cli.profile_folder(args)
    if args.autotune:
        measured = laptop_cli.measure_machine(
            config, user_id, laptop_cli.QUICK_SECONDS_PER_COUNT, clock, args.nice
        )
        print(f"measured; stored in {save_profile(folder, measured)}")
    if args.num_envs != AUTO:
        return config, int(args.num_envs), 0
    facts = laptop_cli.machine_facts()
    known = load_profile(folder, user_id)
    advice = recommend(facts)
    if known is not None and known.fits(facts) and known.workload == config.training.workload:
        print(f"{known.envs} environments: {known.reasons[-1]} (measured profile of {user_id})")
        print(f"  (the guide's table, without a measurement: {advice.envs})", flush=True)
        if config.training.vector_backend != "auto":
            return config, known.envs, 0
        config = laptop_cli.with_training(config, vector_backend=known.backend)
        return config, known.envs, known.groups
    print(f"{advice.envs} environments: {'; '.join(advice.reasons)}")
    print(f"  (not measured; python -m Daddy.autotune --user-id {user_id} measures it)", flush=True)
    return config, advice.envs, 0


def play_session(
    visit: LaptopSession, run_name: str, limits: LaptopLimits, frames: FrameSink, niceness: int
) -> str:
    """Play, or learn and contribute, until told to stop; returns the line that sums it up."""
    from Daddy.learning.console import ConsoleReporter
    from Daddy.learning.learner_parts import assemble
    from Daddy.learning.loop import train
    from Daddy.learning.play_loop import play
    from Daddy.weights.laptop.pulled_folder import LaptopTotals, add_to_totals

    training, clock = visit.config.training, visit.clock
    who = (run_name, training.workload, "actor", visit.user_id, clock)
    writer = EventWriter(visit.run.events, *who)
    console = ConsoleReporter(writer, frames, clock, partial(print, flush=True))
    machine_info.lower_priority(
        niceness
    )  # now that all is loaded; what is started later inherits it
    # A laptop begins with the newest version, so its checkpoints are nobody's.
    with tempfile.TemporaryDirectory(prefix="daddy-") as scratch:
        around = _surroundings(visit, console, limits, Path(scratch))
        environments = partial(
            laptop_cli.make_environments, visit.config, training.num_envs, visit.groups
        )
        parts = assemble(visit.config, WORKLOADS[training.workload], around, environments)
        with closing(parts.vector), run_laptop_tasks(visit, console):
            outcome = train(parts) if visit.contribute else play(parts)
    effort = LaptopTotals(console.step, console.milestones["handed in"])
    with suppress(OSError):
        add_to_totals(visit.shared, visit.user_id, effort)
    return console.summary_line(outcome.reason)


def _surroundings(
    visit: LaptopSession, console: ConsoleReporter, limits: LaptopLimits, scratch: Path
) -> Surroundings:
    from Daddy.learning.learner_parts import Surroundings
    from Daddy.weights.laptop.laptop_exchange import LaptopExchange, PulledVersions

    def log_event(event: str, data: Mapping[str, object]) -> None:
        console.write(event, limits.steps, data)

    shared, assists = visit.shared, tuple(visit.config.training.assists)
    exchange = PulledVersions(shared, assists, log_event)
    if visit.contribute:
        me = (visit.user_id, new_incarnation(), visit.clock)
        exchange = LaptopExchange(shared, *me, assists=assists, tell=log_event)
    return Surroundings(
        peer=visit.user_id,
        checkpoints=scratch,
        tensorboard=None,
        lease=limits,
        exchange=exchange,
        frames=console,
        stopper=limits,
        events=console,
        clock=visit.clock,
    )


@contextmanager
def _frames(visit: LaptopSession, port: int | None) -> Iterator[FrameSink]:
    """Where pictures go: nowhere, or through a relay of our own to the viewer on this machine."""
    from Daddy.learning.interfaces import NoFrames

    if port is None:
        yield NoFrames()
        return
    from Daddy.streaming.tunnel_client import frame_sender

    relay = _start_relay(visit.run, port)
    try:
        training = visit.config.training
        sender = frame_sender(visit.run.stream, visit.user_id, training, visit.clock) or NoFrames()
        with closing(sender):
            yield sender
    finally:
        machine_info.terminate_tree(relay, RELAY_GRACE_S)


def _start_relay(run: RunPaths, port: int) -> machine_info.ProcessId:
    run.stream.mkdir(parents=True, exist_ok=True)
    print(f"streaming to 127.0.0.1:{port}; to watch: "
          f"python -m Daddy.streaming.tunnel_server --port {port}")  # fmt: skip
    where = ["--run-dir", str(run.root), "--port", str(port)]
    argv = [sys.executable, "-m", "Daddy.streaming.relay", *where, "--via", "spool"]
    argv += ["--die-with-parent", str(machine_info.current_process().pid)]
    return child_process.start_background(argv, log_path=run.logs / "relay.log")


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
