"""Entry: ``python -m Daddy.terminal run TASK`` plays episodes of a terminal task."""

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.dotenv import load_dotenv
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode, UsageError
from Daddy.core.humanize import printable_line
from Daddy.terminal.agents import KEY, Agent, play_human, play_model, play_nop, play_oracle
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes, open_terminal_backend
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv

_AGENTS = {"oracle": play_oracle, "nop": play_nop, "human": play_human}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="python -m Daddy.terminal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "play episodes of a task, grade them and print their rewards"
    run = commands.add_parser("run", help=text, description=f"Run: {text}.")
    run.add_argument("task", type=Path, help="task folder in Harbor's format")
    run.add_argument("--agent", default="oracle", help="oracle, nop, human or a URL (oracle)")
    run.add_argument(
        "--model-name", "--model", default="default", help="name of the model at the URL (default)"
    )
    run.add_argument(
        "--max-turns", type=whole_number(1), default=50, help="most replies in an episode (50)"
    )
    run.add_argument("-n", type=whole_number(1), default=1, help="episodes, side by side (1)")
    run.add_argument("--backend", default="auto", help="sandbox backend (auto)")
    run.add_argument("--image", default="", help="root file system (the Dockerfile's base)")
    text = "folder of the records (runs/terminal)"
    run.add_argument("--runs-dir", type=Path, default=Path("runs/terminal"), help=text)
    run.add_argument("--force-build", action="store_true", help="do the Dockerfile's steps again")
    text = "also in sandboxes that confine only partly"
    run.add_argument("--allow-unsafe", action="store_true", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Play. Exit codes: 2 usage, 3 task or backend, 8 no reply, 12 not confined, 13 dropped."""
    args = make_parser().parse_args(argv)
    load_dotenv(Path.cwd(), os.environ)
    agent = _choose_agent(args)
    task = read_task(args.task)
    backend, shown = open_terminal_backend(args.backend, allow_unsafe=args.allow_unsafe)
    print(shown)
    sandboxes = TaskSandboxes(task, backend, args.runs_dir / "layers", args.image)
    print(f"task {task.name}: image {sandboxes.image}", flush=True)
    if task.asks_for_disk and not sandboxes.disk_mb:
        print(f"all that is written counts as memory: {sandboxes.limits(0).scratch_mb} MB at most")
    if task.in_place:
        print("graded in place, as its task.toml asks: an agent can forge the reward")
    if task.allows_network:
        print("task.toml allows a network, and sandboxes have none: what needs one fails")
    return asyncio.run(_play_all(args, sandboxes, agent, SystemClock()))


def _choose_agent(args: argparse.Namespace) -> Agent:
    if args.agent == "human" and args.n > 1:
        raise UsageError("a person plays one episode at a time", "leave out -n")
    if agent := _AGENTS.get(args.agent):
        return agent
    return play_model(args.agent, args.model_name, args.max_turns, os.environ.get(KEY, ""))


async def _play_all(
    args: argparse.Namespace, sandboxes: TaskSandboxes, agent: Agent, clock: Clock
) -> int:
    """Play all episodes at once and print a line for each, and the sum."""
    await sandboxes.build(force=args.force_build)
    began = clock.monotonic()

    async def play(number: int) -> float | None:
        env = AsyncTerminalGymEnv(
            sandboxes.task.folder, runs_dir=args.runs_dir, sandboxes=sandboxes
        )
        try:
            obs, facts = await env.reset()
            await agent(env, obs)
            reward, reason = await env.verify(), env.reason
        finally:
            await env.close()
        shown = "dropped" if reward is None else f"reward {reward:.3g}"
        reason = printable_line(reason)
        print(f"episode {number}: {shown} ({reason}); {facts['folder']}", flush=True)
        return reward

    tasks = [asyncio.ensure_future(play(number)) for number in range(1, args.n + 1)]
    try:
        rewards = await asyncio.gather(*tasks)
    except DaddyError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    kept = [reward for reward in rewards if reward is not None]
    mean = f"{sum(kept) / len(kept):.3f}" if kept else "none"
    dropped, rate = len(rewards) - len(kept), len(rewards) / (clock.monotonic() - began)
    print(f"mean reward {mean} of {len(kept)}, {dropped} dropped, {rate:.1f} episodes a second")
    return ExitCode.PARTLY_FAILED if dropped else ExitCode.DONE


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
