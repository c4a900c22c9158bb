"""Entry: a learner. `python -m Daddy.train_slim` by hand, or with `--attempt` as a job.

Claims a slot, puts the parts together, runs the loop, and says how it ended: exit code 10 (drained,
continue me), 0 (total_steps reached), 11 (no free slot), 93 (do not restart me), or the code of
what went wrong. Parses and wires; decides nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.background.background_task import has_archive
from Daddy.core.clock import SystemClock
from Daddy.core.errors import DaddyError, ExitCode, run_entry
from Daddy.core.job_environment import SLOT, StartupTimer, read_job
from Daddy.core.load_config import load_config, run_paths, shared_paths
from Daddy.core.log_setup import add_log_flags, log_to
from Daddy.core.machine_info import memory_bytes, usable_cores
from Daddy.core.name_validation import new_incarnation, new_token
from Daddy.core.settings import CollaborationSettings, Config, SettingsSection, TrainingSettings
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.core.slot_lease import SLOT_WAIT_S, HeldSlot, claim_slot, resume_slot
from Daddy.core.stop_reasons import StopSignal
from Daddy.hardware.recommend_envs import MachineFacts, recommend
from Daddy.learning.job_attempt import AttemptEventLog, JobAttempt
from Daddy.learning.preloading import (
    EnvironmentLoader,
    beat_while_loading,
    garbage_collection_paused,
    prefetch_checkpoint,
    prepare_imports,
)
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.interfaces import NoExchange, NoFrames
    from Daddy.learning.loop import TrainingOutcome
    from Daddy.learning.make_vector import Backend
    from Daddy.streaming.tunnel_client import FrameSender
    from Daddy.weights.weight_exchange import SharedExchange

_EXIT_CODES = {
    "done": ExitCode.DONE,
    "drained": ExitCode.DRAINED,
    "fenced": ExitCode.NOT_NEEDED,
    "diverged": ExitCode.DO_NOT_RESTART,
}

_SECTIONS: dict[str, type[SettingsSection]] = {
    "training": TrainingSettings,
    "collaboration": CollaborationSettings,
}
_NUMBERS = (
    *("num_envs", "total_steps", "batch_size", "seed", "stream_port"),
    *("max_runtime_seconds", "checkpoint_interval"),
)
_SWITCHES = ("stream", "allow_unknown_rom")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one attempt; returns its exit code."""
    args = make_parser().parse_args(argv)
    if args.attempt is not None or args.log_level is not None:
        log_to(sys.stdout, args.log_level)
    attempt = _attempt(args)
    attempt.boot.mark("interpreter")
    seat = _seat(attempt)
    if seat is not None:
        return _fill(attempt, seat)
    reason = f"no free slot among {list(attempt.slots)} of {attempt.run.root}"
    code = int(ExitCode.NOT_NEEDED)
    said = {"state": "goodbye", "reason": reason, "exit_code": code}
    attempt.events(f"attempt-{attempt.token}").write("state", 0, said)
    print(f"{reason}: every one is held by a living learner", file=sys.stderr)
    return code


def _seat(attempt: JobAttempt) -> HeldSlot | None:
    """The slot that the launcher claimed before it became us; by hand, one that we claim."""
    job = read_job(os.environ)
    if job.slot is not None and job.term is not None and not attempt.by_hand:
        return resume_slot(attempt.run, job.slot, job.term, attempt.clock)
    attempt.run.events.mkdir(parents=True, exist_ok=True)
    attempt.events(f"attempt-{attempt.token}").write("state", 0, {"state": "started"})
    patience, asked = 0.0 if attempt.by_hand else SLOT_WAIT_S, attempt.signals.stop_reason
    holder = attempt.lease_facts()
    return claim_slot(attempt.run, attempt.slots, holder, attempt.clock, patience, asked)


def _fill(attempt: JobAttempt, seat: HeldSlot) -> int:
    """Train in the slot; however it ends, say goodbye and give the slot back."""
    events = attempt.events(f"slot-{seat.number}")
    seat.leaves_at = attempt.wall.deadline
    facts = {"slot": seat.number, "term": seat.term, "deadline": round(seat.leaves_at, 3)}
    events.write("state", 0, {"state": "claimed", **facts})
    step, reason, code = 0, "bug", int(ExitCode.BUG)
    try:
        outcome = _learn(attempt, seat, events)
        step, reason, code = outcome.step, outcome.reason, int(_EXIT_CODES[outcome.kind])
    except (DaddyError, OSError) as error:
        code = int(error.exit_code if isinstance(error, DaddyError) else ExitCode.FILES)
        reason = error.message if isinstance(error, DaddyError) else str(error)
        events.write("error", step, {"text": reason, "exit_code": code})
        raise
    finally:
        events.write("state", step, {"state": "goodbye", "reason": reason, "exit_code": code})
        seat.release(reason)
    return code


def _learn(attempt: JobAttempt, seat: HeldSlot, events: AttemptEventLog) -> TrainingOutcome:
    """Load torch, build everything, run the loop, and close what was opened."""
    config, peer = attempt.config, f"slot-{seat.number}"
    os.environ[SLOT] = str(seat.number)  # by hand too: what environments keep says whose it is
    prepare_imports()
    workload = WORKLOADS[config.training.workload]
    workload.check(config)
    with ExitStack() as closing:
        ahead = _environments(attempt, events)
        closing.callback(ahead.close)
        beat_while_loading(seat, attempt.boot, attempt.clock)
        prefetch_checkpoint(attempt.run.slot(seat.number).checkpoints)
        with garbage_collection_paused():
            from Daddy.learning.console import ConsoleReporter
            from Daddy.learning.learner_parts import Surroundings, assemble
            from Daddy.learning.loop import train

        attempt.boot.mark("libraries")
        frames = _frames(attempt, peer)
        closing.callback(frames.close)
        voice = ConsoleReporter(events, frames, attempt.clock, _speaker(attempt))
        exchange = _exchange(attempt, peer, seat.term, events)
        around = Surroundings(
            peer=peer,
            checkpoints=attempt.run.slot(seat.number).checkpoints,
            tensorboard=attempt.run.tensorboard,
            lease=seat,
            exchange=exchange,
            frames=voice,
            stopper=attempt,
            events=voice,
            clock=attempt.clock,
            boot=attempt.boot,
        )
        if config.collaboration.enabled and not config.collaboration.join and has_archive(config):
            from Daddy.background.milestone_intake import run_job_tasks

            closing.enter_context(run_job_tasks(attempt, peer))
        parts = assemble(config, workload, around, ahead)
        closing.callback(parts.vector.close)
        closing.callback(parts.board.close)
        outcome = train(parts)
        exchange.leave_fleet(outcome.reason)
        _speaker(attempt)(voice.summary_line(outcome.reason))
        return outcome


def _speaker(attempt: JobAttempt) -> Callable[[str], None]:
    """A job's lines go to its log, with a time stamp; a person at a terminal reads them plain."""
    return partial(print, flush=True) if attempt.by_hand else logging.getLogger(__name__).info


def _environments(attempt: JobAttempt, events: AttemptEventLog) -> EnvironmentLoader:
    """Begun before torch is loaded, which needs longer."""
    from Daddy.learning.make_vector import is_forking, make_vector

    training, row = attempt.config.training, WORKLOADS[attempt.config.training.workload]
    count, backend = training.num_envs, _backend(attempt, events)
    make = partial(make_vector, row.make_env(attempt.config), count, backend)
    return EnvironmentLoader(make, on_thread=not is_forking(backend, count))


def _backend(attempt: JobAttempt, events: AttemptEventLog) -> Backend:
    """As configured; else as measured on this machine, said beside the guide's table."""
    from Daddy.learning.env_benchmark import choose_backend
    from Daddy.learning.make_vector import groups_for

    config, training = attempt.config, attempt.config.training
    if training.vector_backend != "auto" or groups_for(training.num_envs) == 1:
        return training.vector_backend
    idle = config.archive.model_copy(update={"mode": "off"})  # what a trial reaches is not kept
    make_env = WORKLOADS[training.workload].make_env(config.model_copy(update={"archive": idle}))
    record = attempt.run.backend
    chosen = choose_backend(make_env, training.num_envs, record, attempt.clock)
    facts = MachineFacts(usable_cores(), memory_bytes()[0], training.device == "cuda")
    table = recommend(facts).envs
    events.write("state", 0, {"state": "backend", "backend": chosen.backend, **chosen.rates})
    said = f"{training.num_envs} environments by {chosen.reason}"
    _speaker(attempt)(f"{said}; the guide's table has {table} for this machine")
    return chosen.backend


def _exchange(
    attempt: JobAttempt, peer: str, term: int, events: AttemptEventLog
) -> NoExchange | SharedExchange:
    config = attempt.config
    if not config.collaboration.enabled:
        from Daddy.learning.interfaces import NoExchange

        return NoExchange()
    from Daddy.weights.exchange_settings import from_config
    from Daddy.weights.weight_exchange import SharedExchange

    row, shared = WORKLOADS[config.training.workload], shared_paths(config)
    settings = from_config(config, row.name, row.facts(config), read_job(os.environ).release)
    known = (peer, new_incarnation(), settings, attempt.clock, events)
    if isinstance(shared, JoinedPaths):
        from Daddy.weights.friend_exchange import join_run

        return join_run(shared, *known, term=term)
    return SharedExchange(shared, *known, term=term)


def _frames(attempt: JobAttempt, peer: str) -> NoFrames | FrameSender:
    from Daddy.learning.interfaces import NoFrames

    if not attempt.config.training.stream:
        return NoFrames()
    from Daddy.streaming.tunnel_client import frame_sender

    training = attempt.config.training
    sender = frame_sender(attempt.run.stream, peer, training, attempt.clock, attempt.job_id)
    return sender or NoFrames()


def _attempt(args: argparse.Namespace) -> JobAttempt:
    clock = SystemClock()
    boot = StartupTimer.from_environment(os.environ, clock)
    config = _config(args)
    slots = range(config.slurm.max_running) if args.job_rank is None else [args.job_rank]
    return JobAttempt(
        config=config,
        run=run_paths(config),
        token=args.attempt or new_token(),
        job_id=read_job(os.environ).job_id or f"pid-{os.getpid()}",
        by_hand=args.attempt is None,
        slots=slots,
        clock=clock,
        boot=boot,
        signals=StopSignal().install(),
    )


def _config(args: argparse.Namespace) -> Config:
    """All layers and flags; a job's file is frozen in its release, and only flags change it."""
    flags = settings_of(args)
    if args.cartridge:
        flags["training.rom"] = str(cartridge_path())
    layers = () if args.attempt is not None else (os.environ, args.site)
    return load_config(args.config, flags, *layers)


def make_parser() -> argparse.ArgumentParser:
    """The command line: a flag's help is the description of the setting that it sets.

    Settings come out under their dotted names, None where not given.
    """
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
    _setting(parser, "training.workload", choices=sorted(WORKLOADS))
    _setting(parser, "training.device", metavar="DEVICE")
    _setting(parser, "training.rom", type=_absolute, metavar="FILE")
    _setting(parser, "training.start", type=_name_or_file, metavar="NAME|FILE")
    _setting(parser, "training.assists", metavar="NAMES")
    for name in _NUMBERS:
        _setting(parser, f"training.{name}", type=int, metavar="N")
    for name in _SWITCHES:
        _setting(parser, f"training.{name}", action=argparse.BooleanOptionalAction)
    add_log_flags(parser)
    return parser


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings among parsed flags, by dotted key, as `load_config` takes them."""
    return {key: value for key, value in vars(args).items() if "." in key or key == "run_dir"}


def _setting(parser: argparse.ArgumentParser, key: str, **how: Any) -> None:
    section, _, name = key.rpartition(".")
    model: type[SettingsSection] = _SECTIONS[section] if section else Config
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


def cli() -> None:
    """The installed command. Everything is closed by now, so the interpreter is left untidied.

    Tearing torch down takes a second or more, and the successor waits for our place meanwhile.
    """
    code = run_entry(main)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    cli()
