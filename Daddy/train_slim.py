"""Entry: runs a learner; `python -m Daddy.train_slim` by hand, or with `--attempt` as a job.

Claims a slot, assembles the parts and runs the training loop. Exit codes: 10 (drained: continue
me), 0 (total_steps reached), 11 (no free slot), 93 (do not restart me), or the code of an error.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.background.background_task import has_archive
from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.environment_files import describe_purge
from Daddy.core.errors import ConfigError, DaddyError, ExitCode
from Daddy.core.host_and_processes import tree_cpu_seconds
from Daddy.core.job_environment import SLOT, StartupTimer, read_job
from Daddy.core.load_config import load_config, run_paths, shared_paths
from Daddy.core.log_setup import add_log_flags, log_to
from Daddy.core.name_validation import new_incarnation, new_token
from Daddy.core.rank_address import read_rank
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.core.slot_lease import SLOT_WAIT_S, HeldSlot, claim_slot, resume_slot
from Daddy.core.stop_conditions import StopSignal
from Daddy.learning.attempt_context import AttemptEventLog, JobAttempt
from Daddy.learning.startup_preloading import (
    EnvironmentLoader,
    beat_while_loading,
    garbage_collection_paused,
    prefetch_checkpoint,
    prepare_imports,
)
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.interfaces import NoExchange, NoFrames, ProcessGroup
    from Daddy.learning.loop import TrainingOutcome
    from Daddy.streaming.tunnel_client import FrameSender
    from Daddy.weights.weight_exchange import SharedExchange

_EXIT_CODES = {
    "done": ExitCode.DONE,
    "drained": ExitCode.DRAINED,
    "fenced": ExitCode.NOT_NEEDED,
    "diverged": ExitCode.DO_NOT_RESTART,
}

_NUMBERS = (
    *("num_envs", "total_steps", "batch_size", "seed", "stream_port"),
    *("max_runtime_seconds", "checkpoint_interval"),
)
_SWITCHES = ("stream", "allow_unknown_rom")


def main(argv: Sequence[str] | None = None) -> int:
    """Claim a slot and train in it; return the attempt's exit code."""
    args = make_parser().parse_args(argv)
    if args.attempt is not None or args.log_level is not None:
        log_to(sys.stdout, args.log_level)
    attempt = _attempt(args)
    attempt.boot.mark("interpreter")
    slot = _claim(attempt)
    if slot is not None:
        return _run_in_slot(attempt, slot)
    reason = f"no free slot among {list(attempt.slots)} of {attempt.run.root}"
    code = int(ExitCode.NOT_NEEDED)
    event = {"state": "goodbye", "reason": reason, "exit_code": code}
    attempt.events(f"attempt-{attempt.token}").write("state", 0, event)
    print(f"{reason}: each is held by a running learner", file=sys.stderr)
    return code


def _claim(attempt: JobAttempt) -> HeldSlot | None:
    """Return the slot that the job's launcher claimed, or claim one; None if none is free."""
    job = read_job(os.environ)
    if job.slot is not None and job.term is not None and not attempt.by_hand:
        return resume_slot(attempt.run, job.slot, job.term, attempt.clock)
    attempt.run.events.mkdir(parents=True, exist_ok=True)
    attempt.events(f"attempt-{attempt.token}").write("state", 0, {"state": "started"})
    wait_s, asked = 0.0 if attempt.by_hand else SLOT_WAIT_S, attempt.signals.stop_reason
    holder = attempt.lease_facts()
    return claim_slot(attempt.run, attempt.slots, holder, attempt.clock, wait_s, asked)


def _run_in_slot(attempt: JobAttempt, slot: HeldSlot) -> int:
    """Train in the slot, write the last event, release the slot; return the exit code."""
    events = attempt.events(f"slot-{slot.number}")
    slot.leaves_at = attempt.wall.deadline
    facts = {"slot": slot.number, "term": slot.term, "deadline": round(slot.leaves_at, 3)}
    events.write("state", 0, {"state": "claimed", **facts})
    step, reason, code = 0, "bug", int(ExitCode.BUG)
    try:
        outcome = _learn(attempt, slot, events)
        step, reason, code = outcome.step, outcome.reason, int(_EXIT_CODES[outcome.kind])
    except (DaddyError, OSError) as error:
        code = int(error.exit_code if isinstance(error, DaddyError) else ExitCode.FILES)
        reason = error.message if isinstance(error, DaddyError) else str(error)
        events.write("error", step, {"text": reason, "exit_code": code})
        raise
    except Exception as error:  # with a purge the interpreter exits with that code
        if why := describe_purge(error, Path(sys.prefix)):
            reason, code = why, int(ExitCode.PACKAGES_MISSING)
        raise
    finally:
        events.write("state", step, {"state": "goodbye", "reason": reason, "exit_code": code})
        well = code in (ExitCode.DONE, ExitCode.DRAINED)
        with suppress(OSError):  # a full disk: the controller ends the term
            slot.release(reason if well else f"exit code {code}: {reason}")
    return code


def _learn(attempt: JobAttempt, slot: HeldSlot, events: AttemptEventLog) -> TrainingOutcome:
    """Load torch, assemble the learner, run the training loop, and close all parts."""
    config, peer = attempt.config, f"slot-{slot.number}"
    os.environ[SLOT] = str(slot.number)  # also by hand: environments record it in saved states
    prepare_imports()
    workload = WORKLOADS[config.training.workload]
    workload.check(config)
    with ExitStack() as closing:
        ahead = _environments(attempt)
        closing.callback(ahead.close)
        beat_while_loading(slot, attempt.boot, attempt.clock)
        prefetch_checkpoint(attempt.run.slot(slot.number).checkpoints)
        with garbage_collection_paused():
            from Daddy.learning.console import ConsoleReporter
            from Daddy.learning.learner_parts import Surroundings, assemble
            from Daddy.learning.loop import train
        attempt.boot.mark("libraries")
        frames, line = _frames(attempt, peer), _log_line(attempt)
        closing.callback(frames.close)
        console = ConsoleReporter(events, frames, attempt.clock, line, print_errors=attempt.by_hand)
        exchange = _exchange(attempt, peer, slot.term, events)
        around = Surroundings(
            peer=peer,
            checkpoints=attempt.run.slot(slot.number).checkpoints,
            tensorboard=attempt.run.tensorboard,
            lease=slot,
            exchange=exchange,
            frames=console,
            stopper=attempt,
            events=console,
            clock=attempt.clock,
            group=_group(attempt),
            boot=attempt.boot,
        )
        if config.collaboration.enabled and not config.collaboration.join and has_archive(config):
            from Daddy.background.milestone_intake import run_job_tasks

            closing.enter_context(run_job_tasks(attempt, peer))
        parts = assemble(config, workload, around, ahead)
        closing.callback(parts.vector.close)
        closing.callback(parts.board.close)
        outcome = _record_cost(events, train(parts))
        exchange.leave_fleet(outcome.reason)
        _log_line(attempt)(console.summary_line(outcome.reason))
        return outcome


def _record_cost(events: AttemptEventLog, outcome: TrainingOutcome) -> TrainingOutcome:
    """Write the CPU seconds, while the environments' processes still count; return `outcome`."""
    cost = {"result": "training", "cpu_seconds": round(tree_cpu_seconds(), 2)}
    events.write("result", outcome.step, cost)
    return outcome


def _group(attempt: JobAttempt) -> ProcessGroup:
    """Return the connected ranks if `--ddp` asks for them and there are several."""
    from Daddy.learning.interfaces import SingleProcess

    if attempt.rank is None:
        return SingleProcess()
    from Daddy.learning.ddp import GlooGroup, Rendezvous

    token = "" if attempt.by_hand else attempt.token
    start = f"{token} {attempt.rank.restart}"
    path, say = attempt.run.rendezvous, _log_line(attempt)
    return GlooGroup(attempt.rank, meeting=Rendezvous(path, start, attempt.clock, say))


def _log_line(attempt: JobAttempt) -> Callable[[str], None]:
    """Return the function that prints a line: with a time stamp in a job, plain by hand."""
    return partial(print, flush=True) if attempt.by_hand else logging.getLogger(__name__).info


def _environments(attempt: JobAttempt) -> EnvironmentLoader:
    """Return a loader that opens the environments beside the loading of torch."""
    from Daddy.learning.make_vector import is_forking, make_vector

    training, row = attempt.config.training, WORKLOADS[attempt.config.training.workload]
    backend = training.vector_backend
    make = partial(make_vector, row.make_env(attempt.config), training.num_envs, backend)
    return EnvironmentLoader(make, on_thread=not is_forking(backend))


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
    common = (peer, new_incarnation(), settings, attempt.clock, events)
    if isinstance(shared, JoinedPaths):
        from Daddy.weights.friend_job_exchange import join_run

        return join_run(shared, *common, term=term)
    return SharedExchange(shared, *common, term=term)


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
    rank = read_rank(os.environ, slurm=True) if args.ddp else None
    slots = range(config.slurm.max_running) if args.job_rank is None else [args.job_rank]
    if rank is not None:
        _refuse_collaboration(config)
        slots = [rank.rank]
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
        rank=rank,
    )


def _refuse_collaboration(config: Config) -> None:
    if config.collaboration.enabled:
        raise ConfigError(
            "--ddp is set and collaboration.enabled is true: the ranks' weights would differ",
            "set collaboration.enabled to false (DADDY_COLLABORATION__ENABLED=false)",
        )


def _config(args: argparse.Namespace) -> Config:
    """Load the configuration from file and flags; by hand, also from environment and site."""
    flags = {key: value for key, value in vars(args).items() if "." in key or key == "run_dir"}
    if args.cartridge:
        flags["training.rom"] = str(cartridge_path())
    layers = () if args.attempt is not None else (os.environ, args.site)
    return load_config(args.config, flags, *layers)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; a setting's flag shows the setting's description and default."""
    parser = ArgumentParser(
        prog="train_slim",
        description="Train one learner of a run, which continues from its slot's checkpoint. "
        "Exit codes: 0 total_steps reached, 10 drained (continue me), 11 no free slot, "
        "93 do not restart me; others as in docs/exit-codes.md.",
    )
    flag = parser.add_argument
    flag("--config", type=Path, metavar="FILE", help="configuration file (the one shipped)")
    flag("--site", metavar="NAME", help="name of a site profile in cluster/sites")
    flag("--attempt", metavar="TOKEN", help="token of the attempt, set by the controller")
    flag(
        "--job-rank",
        type=whole_number(0, 63),
        metavar="K",
        help="number of the slot to train in (first free)",
    )
    flag(
        "--ddp",
        action="store_true",
        help="distributed data parallel training: one learner with the other ranks that torchrun "
        "or srun starts, in the slot of this rank's number (off; no effect on a single rank)",
    )
    flag("--resume", action="store_true", help="no effect: a learner always continues")
    flag("--cartridge", action="store_true", help="play the cartridge, not the configured game")
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


def _setting(parser: argparse.ArgumentParser, key: str, **how: Any) -> None:
    section, _, name = key.rpartition(".")
    model: Any = Config.model_fields[section].annotation if section else Config
    field = model.model_fields[name]
    default = field.get_default(call_default_factory=True)
    text = f"{field.description} ({default})" if default or default == 0 else field.description
    parser.add_argument(f"--{name.replace('_', '-')}", dest=key, default=None, help=text, **how)


def _absolute(text: str) -> str:
    """Return a path as absolute; a relative path is relative to the working folder."""
    return str(Path(text).expanduser().absolute())


def _name_or_file(text: str) -> str:
    """Make a path (with ``/`` or ``.state``) absolute; return a name unchanged."""
    return _absolute(text) if "/" in text or text.endswith(".state") else text


def cli() -> None:
    """Run the installed command and exit without the interpreter's cleanup.

    The cleanup of torch takes a second or more, and this job's successor waits for the GPU.
    """
    code = run_entry(main, private=True)
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    cli()
