"""Entry: a laptop plays the newest version of the weights, and with `--contribute` learns from it.

The laptop uses only complete, verified versions, prints the version it plays, leaves one core, 4 GB
to the person, and ends on Ctrl-C with one line.
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

from Daddy import laptop_common
from Daddy.background.laptop_tasks import run_laptop_tasks
from Daddy.core import agreed_settings, host_and_processes, run_subprocess
from Daddy.core.arguments import (
    LARGEST_NUMBER,
    ArgumentParser,
    nonnegative_seconds,
    port_number,
    whole_number,
)
from Daddy.core.assist_compatibility import missing_assists, refuse_missing_assists
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, UsageError, WeightsError
from Daddy.core.event_log import EventWriter
from Daddy.core.name_validation import new_incarnation
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import MOST_ENVS, Config
from Daddy.core.stop_conditions import StopSignal
from Daddy.hardware.machine_profile import load_profile, save_profile
from Daddy.hardware.recommend_envs import recommend
from Daddy.laptop_common import LaptopLimits, LaptopSession
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.weights.laptop.pulled_folder import VerifiedVersion, newest_verified
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.console import ConsoleReporter
    from Daddy.learning.interfaces import FrameSink
    from Daddy.learning.learner_parts import Surroundings

POLL_EVERY_S = 0.5
ENDLESS: Mapping[str, object] = {"total_steps": 0, "checkpoint_interval": LARGEST_NUMBER}
"""A laptop has no step limit and writes no checkpoints: it starts from the newest version."""
AUTO = 0
"""The parsed value of `--num-envs auto`."""

RELAY_GRACE_S = 3.0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(
        prog="run_actors_only",
        description="Play the run's newest weights on this machine; with --contribute, learn too.",
    )
    flag = parser.add_argument
    flag("--shared-dir", type=Path, default=Path("~/shared_weights"),
         help="folder that sync_weights.sh pull fills (~/shared_weights)")  # fmt: skip
    flag("--num-envs", type=_count, default=AUTO, metavar="auto|N",
         help="number of environments (auto: measured, or by the table of the guide)")  # fmt: skip
    flag("--autotune", action="store_true", help="measure this machine first and store the result")
    flag("--contribute", action="store_true", help="learn on this machine, contribute to the run")
    flag("--no-push", action="store_true",
         help="leave contributions in the folder outbox; another terminal pushes them")  # fmt: skip
    flag("--stream", action="store_true", help="stream play to the viewer on this machine")
    flag("--stream-port", type=port_number, default=9999, help="port of the viewer (9999)")
    flag(
        "--wait-seconds",
        type=nonnegative_seconds,
        default=120.0,
        help="seconds to wait for weights (120)",
    )
    flag(
        "--max-steps",
        type=whole_number(0),
        default=0,
        help="steps in all after which to end (0: no limit)",
    )
    flag(
        "--max-seconds",
        type=nonnegative_seconds,
        default=0.0,
        help="seconds after which to end (0: no limit)",
    )
    flag("--run-dir", type=Path, default=Path("runs/laptop"),
         help="folder for events and logs of this laptop (runs/laptop)")  # fmt: skip
    laptop_common.add_flags(parser)
    return parser


def _count(text: str) -> int:
    """Parse --num-envs: ``auto`` or a whole number of at least one. Raises UsageError."""
    if text == "auto":
        return AUTO
    if text.isdecimal() and 0 < int(text) <= MOST_ENVS:
        return int(text)
    raise UsageError(
        f"--num-envs {text} is no number of environments",
        f"give a whole number from 1 to {MOST_ENVS:,}, or auto",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Play until a signal or limit; return 0, or 93 if the policy collapsed twice."""
    args = make_parser().parse_args(argv)
    signals, clock = StopSignal().install(), SystemClock()
    prepare_imports()
    user_id = laptop_common.peer_name(args.user_id)
    shared = args.shared_dir.expanduser().resolve()
    version = wait_for_version(shared, args.wait_seconds, clock, signals)
    if version is None:
        print(f"ended ({signals.stop_reason()}): no version had arrived yet", flush=True)
        return 0
    terms = agreed_settings.contract_from_pairs(version.head.terms)
    config = laptop_common.game_config(args, version.head.workload, terms)
    run = RunPaths(args.run_dir.expanduser().resolve())
    config = config.model_copy(update={"run_dir": str(run.root)})
    _refuse_other_assists(config, version, contribute=args.contribute)
    _compare(config, terms, version, contribute=args.contribute)
    config, count, groups = choose_environments(args, config, user_id, clock)
    config = laptop_common.with_training(config, num_envs=count, **ENDLESS)
    limits = LaptopLimits(args.max_steps, args.max_seconds, clock, signals)
    push = args.contribute and not args.no_push
    session = LaptopSession(config, groups, user_id, shared, run, clock, args.contribute, push)
    with _frames(session, args.stream_port if args.stream else None) as frames:
        return play_session(session, version.head.run, limits, frames, args.nice)


def _refuse_other_assists(config: Config, version: VerifiedVersion, *, contribute: bool) -> None:
    """Raise WeightsError if the weights used assists that we do not, UsageError if we use more."""
    refuse_missing_assists(version.label, version.head.assists, config.training.assists)
    more = missing_assists(config.training.assists, version.head.assists)
    if contribute and more:
        raise UsageError(
            f"run {version.head.run!r} would refuse what is learnt with the assists {more}",
            "leave --contribute out, or play with the run's own assists",
        )


def _compare(
    config: Config, terms: Mapping[str, str], version: VerifiedVersion, *, contribute: bool
) -> None:
    """Print the run's settings that differ here; UsageError if any does and `contribute`."""
    run, release = version.head.run, version.head.release or "that its owner names"
    fix = f"install the release {release}: ask the run's owner for its code"
    if names := agreed_settings.unknown_settings(config, terms):
        print(f"run {run!r} has settings that this program does not know: {', '.join(names)}")
        print(f"  what to do: {fix}", flush=True)
    row = WORKLOADS[config.training.workload]
    ours = agreed_settings.agreed_settings(config, row.facts(config))
    differ = agreed_settings.describe_differences(terms, ours)
    game = [text for text in differ if text.startswith(f"{agreed_settings.GAME} ")]
    if not differ:
        return
    if contribute:
        remedy = "name the run's own game: --rom FILE or --cartridge" if game else fix
        raise UsageError(
            f"run {run!r} would refuse what is learnt here: {'; '.join(differ)}", remedy
        )
    print(f"settings differ from run {run!r}: {'; '.join(differ)}", flush=True)


def wait_for_version(
    shared: Path, wait_s: float, clock: Clock, signals: StopSignal
) -> VerifiedVersion | None:
    """Return the newest verified version, after up to `wait_s` seconds; None on a signal.

    Raises WeightsError when none came in time or the newest is damaged.
    """
    if (version := newest_verified(shared)) is not None:
        return version
    deadline = clock.monotonic() + wait_s
    fix = f'in another terminal: ./Daddy/cluster/sync_weights.sh pull "" {shared} 5'
    print(f"no version in {shared} yet: waiting up to {wait_s:g} s")
    print(f"  what to do: {fix}", flush=True)
    while version is None and not signals.stop_reason():
        if clock.monotonic() >= deadline:
            raise WeightsError(f"no version of the weights came to {shared} in {wait_s:g} s", fix)
        clock.wait(threading.Event(), POLL_EVERY_S)
        version = newest_verified(shared)
    return version


def choose_environments(
    args: argparse.Namespace, config: Config, user_id: str, clock: Clock
) -> tuple[Config, int, int]:
    """Return the configuration, the number of environments, of their groups (0: automatic).

    The number is --num-envs, from the measured profile (with its groups), or the guide's table.
    Prints the reason.
    """
    folder = laptop_common.profile_folder(args)
    if args.autotune:
        measured = laptop_common.measure_machine(
            config, user_id, laptop_common.QUICK_SECONDS_PER_COUNT, clock, args.nice
        )
        print(f"measured; stored in {save_profile(folder, measured)}")
    if args.num_envs != AUTO:
        return config, int(args.num_envs), 0
    facts = laptop_common.machine_facts()
    profile = load_profile(folder, user_id)
    advice = recommend(facts)
    if profile is not None and profile.fits(facts) and profile.workload == config.training.workload:
        print(f"{profile.envs} environments: {profile.reasons[-1]} (measured profile of {user_id})")
        print(f"  (the guide's table, without a measurement: {advice.envs})", flush=True)
        return config, profile.envs, profile.groups
    print(f"{advice.envs} environments: {'; '.join(advice.reasons)}")
    print(f"  (not measured; python -m Daddy.autotune --user-id {user_id} measures it)", flush=True)
    return config, advice.envs, 0


def play_session(
    session: LaptopSession, run_name: str, limits: LaptopLimits, frames: FrameSink, niceness: int
) -> int:
    """Play, or learn and contribute, until a signal or limit; print a line, return the code."""
    from Daddy.learning.console import ConsoleReporter
    from Daddy.learning.learner_parts import assemble
    from Daddy.learning.loop import train
    from Daddy.learning.play_loop import play
    from Daddy.weights.laptop.laptop_totals import LaptopTotals, add_to_totals

    training, clock = session.config.training, session.clock
    source = (run_name, training.workload, "actor", session.user_id, clock)
    writer = EventWriter(session.run.events, *source)
    console = ConsoleReporter(writer, frames, clock, partial(print, flush=True))
    host_and_processes.lower_priority(niceness)  # after loading; later children inherit it
    with tempfile.TemporaryDirectory(prefix="daddy-") as scratch:
        around = _surroundings(session, console, limits, Path(scratch))
        environments = partial(
            laptop_common.make_environments, session.config, training.num_envs, session.groups
        )
        parts = assemble(session.config, WORKLOADS[training.workload], around, environments)
        with closing(parts.vector), run_laptop_tasks(session, console):
            outcome = train(parts) if session.contribute else play(parts)
    effort = LaptopTotals(console.step, console.milestones["handed in"])
    with suppress(OSError):
        add_to_totals(session.shared, session.user_id, effort)
    print(console.summary_line(outcome.reason), flush=True)
    return int(ExitCode.DO_NOT_RESTART if outcome.kind == "diverged" else ExitCode.DONE)


def _surroundings(
    session: LaptopSession, console: ConsoleReporter, limits: LaptopLimits, scratch: Path
) -> Surroundings:
    from Daddy.learning.learner_parts import Surroundings
    from Daddy.weights.laptop.laptop_exchange import LaptopExchange, PlayOnlyExchange

    def log_event(event: str, data: Mapping[str, object]) -> None:
        console.write(event, limits.steps, data)

    shared, assists = session.shared, tuple(session.config.training.assists)
    exchange = PlayOnlyExchange(shared, assists, log_event)
    if session.contribute:
        me = (session.user_id, new_incarnation(), session.clock)
        exchange = LaptopExchange(
            shared, *me, assists=assists, report=log_event, stop_reason=limits.stop_reason
        )
    return Surroundings(
        peer=session.user_id,
        checkpoints=scratch,
        tensorboard=None,
        lease=limits,
        exchange=exchange,
        frames=console,
        stopper=limits,
        events=console,
        clock=session.clock,
    )


@contextmanager
def _frames(session: LaptopSession, port: int | None) -> Iterator[FrameSink]:
    """Yield a FrameSink: to a relay started for the viewer at `port`, or NoFrames if it is None."""
    from Daddy.learning.interfaces import NoFrames

    if port is None:
        yield NoFrames()
        return
    from Daddy.streaming.tunnel_client import frame_sender

    relay = _start_relay(session.run, port)
    try:
        folder, training = session.run.stream, session.config.training
        sender = frame_sender(folder, session.user_id, training, session.clock)
        with closing(sender or NoFrames()) as sink:
            yield sink
    finally:
        host_and_processes.terminate_tree(relay, RELAY_GRACE_S)


def _start_relay(run: RunPaths, port: int) -> host_and_processes.ProcessId:
    run.stream.mkdir(parents=True, exist_ok=True)
    print(f"streaming to 127.0.0.1:{port}; to watch: "
          f"python -m Daddy.streaming.tunnel_server --port {port}")  # fmt: skip
    where = ["--run-dir", str(run.root), "--port", str(port)]
    argv = [sys.executable, "-m", "Daddy.streaming.relay", *where, "--via", "spool"]
    argv += ["--die-with-parent", str(host_and_processes.current_process().pid)]
    return run_subprocess.start_background(argv, log_path=run.logs / "relay.log")


def cli() -> None:
    """Run `main` and exit with its code."""
    sys.exit(run_entry(main, private=True))


if __name__ == "__main__":
    cli()
