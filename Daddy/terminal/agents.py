"""Agents that play an episode: the solution, one that does nothing, a person, a model at a URL."""

import asyncio
import json
import os
import shlex
import sys
import termios
import tty
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from Daddy.core.errors import ConfigError, NetworkError, UsageError
from Daddy.core.humanize import printable_line
from Daddy.terminal.episode_records import make_harmless
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, StepResult, TerminalAction
from Daddy.terminal.terminus_reply import TerminusReply, parse_reply

Agent = Callable[[AsyncTerminalGymEnv, str], Awaitable[None]]
"""Plays an episode to its end, from its first observation."""
KEY: Final = "OPENAI_API_KEY"
FORMAT: Final = """\
Reply with one JSON object and nothing else:
{"analysis": "TEXT", "plan": "TEXT", "commands": [{"keystrokes": "ls\\n", "duration": 1.0}],
 "task_complete": false}
Each "keystrokes" is typed as it is, and \\n presses Enter; "duration" is the longest wait in
seconds. Set "task_complete" to true once the task is done."""
_ANSWER_S, _ANSWER_BYTES = 300.0, 1 << 20
_LEAST_S: Final = 1.0
"""The shortest wait for a command that a reply asks for."""
_REFRESH_S, _KEYS_BYTES = 0.1, 1024
_END_KEY = b"\x1d"


async def play_nop(env: AsyncTerminalGymEnv, _obs: str) -> None:
    """Do nothing."""
    await env.step(TerminalAction(done=True))


async def play_oracle(env: AsyncTerminalGymEnv, _obs: str) -> None:
    """Run the task's solution. ConfigError for a task that has none."""
    source = env.task.folder / "solution"
    if not (source / "solve.sh").is_file():
        raise ConfigError(f"{env.task.name} has no solution/solve.sh", "choose another agent")
    await env.put(source, "/solution")
    time_s = env.task.settings.agent.timeout_sec
    variables = [f"{name}={value}" for name, value in env.task.settings.solution.env.items()]
    line = shlex.join(["env", *variables, "bash", "/solution/solve.sh"])
    await env.step(TerminalAction(f"{line}\n", max_timeout_sec=time_s, done=True))


async def play_human(env: AsyncTerminalGymEnv, obs: str) -> None:
    """Let the person at this terminal type until Ctrl-]. UsageError if there is none."""
    if not sys.stdin.isatty():
        raise UsageError("--agent human needs a terminal to type in", "run it without a pipe")
    print(f"{make_harmless(obs)}\n\nCtrl-] ends and grades the episode.")
    before, loop = termios.tcgetattr(0), asyncio.get_running_loop()
    keys: asyncio.Queue[bytes] = asyncio.Queue()
    tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed ahead
    loop.add_reader(0, lambda: keys.put_nowait(os.read(0, _KEYS_BYTES)))
    try:
        shown, typed = "", b""
        while True:
            text, ended, _ = typed.partition(_END_KEY)
            action = TerminalAction(text.decode(errors="replace"), block=False, done=bool(ended))
            result = await env.step(action) if typed else None
            if result and result.done:
                return
            if (screen := make_harmless(result.obs if result else await env.render())) != shown:
                shown = screen
                print(f"\x1b[H\x1b[2J{screen}".replace("\n", "\r\n"), end="", flush=True)
            try:
                typed = await asyncio.wait_for(keys.get(), _REFRESH_S)
            except asyncio.TimeoutError:
                typed = b""
    finally:
        loop.remove_reader(0)
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        print()


async def answer(
    env: AsyncTerminalGymEnv, text: str, *, ended: bool = True, last: bool = False
) -> tuple[TerminusReply | None, StepResult]:
    """Type a model's reply; return it, and the step after it.

    One that breaks the format, or was cut before it `ended`, is None and ends the episode with 0.
    """
    try:
        if not ended:
            raise ValueError("it was cut off")
        reply = parse_reply(text)
    except ValueError as error:
        return None, env.end_with_zero(f"a reply broke the format: {error}")
    return reply, await type_reply(env, reply, last=last)


async def type_reply(
    env: AsyncTerminalGymEnv, reply: TerminusReply, *, last: bool = False
) -> StepResult:
    """Type a reply's commands, each to its end or time; return the last step."""
    for command in reply.commands:
        wait_s = max(command.duration_s, _LEAST_S)
        result = await env.step(TerminalAction(command.keys, max_timeout_sec=wait_s))
        if result.done:
            return result
    if (done := reply.task_complete or last) or not reply.commands:
        return await env.step(TerminalAction(done=done))
    return result


def play_model(url: str, model: str, max_turns: int, key: str = "") -> Agent:
    """Return the agent of a server with OpenAI's interface.

    An episode ends with reward 0 at the first reply that breaks the format. NetworkError.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url!r} is no agent", "name oracle, nop, human or the URL of a server")
    address = url.rstrip("/") + (
        "" if url.rstrip("/").endswith("/completions") else "/chat/completions"
    )

    async def play(env: AsyncTerminalGymEnv, obs: str) -> None:
        messages = [{"role": "system", "content": FORMAT}, {"role": "user", "content": obs}]
        for _ in range(max_turns):
            body = {"model": model, "messages": messages}
            text = await asyncio.to_thread(_ask, address, body, key)
            _, result = await answer(env, text)
            if result.done:
                return
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": result.obs})
        await env.step(TerminalAction(done=True))

    return play


def _ask(address: str, body: dict[str, Any], key: str) -> str:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = Request(address, json.dumps(body).encode(), headers)  # noqa: S310 - checked above
    try:
        with urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
            found = json.loads(answer.read(_ANSWER_BYTES))
        text = found["choices"][0]["message"]["content"]
    except HTTPError as error:
        denied = error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        fix = f"set {KEY}" if denied else "check the URL and --model-name"
        raise NetworkError(f"{address} answers with status {error.code}", fix) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        shown = printable_line(str(error), 100)
        raise NetworkError(f"{address} gives no reply: {shown}", "check the URL") from error
    return str(text)
