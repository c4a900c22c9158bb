"""Types into a tmux session of a sandbox and reads its screen; no step waits for a fixed time.

bash counts its prompts (``PS1`` and ``PS2``) and tells of each by signalling a channel of tmux with
this number, so that a step ends with its last line's command. Programs that draw have no prompt:
their step ends when the screen does not change any more.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, SandboxError
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import Outcome
from Daddy.terminal.task_sandboxes import TaskSandboxes

LOOK_S: Final = 0.02
"""Seconds between two looks at the screen."""
_ANSWER_S = 30.0
_SIGNAL = (
    "read n < /run/terminal/prompts; n=$((n + 1)); echo $n > /run/terminal/prompts; "
    "tmux -S /run/terminal/tmux wait-for -S prompt-$n"
)
_PROMPTS: Final = {
    "PROMPT_COMMAND": f"({_SIGNAL}) 2>/dev/null",
    "PS2": f"$({_SIGNAL} 2>/dev/null)> ",
    "PS1": r"\u:\w\$ ",
}
_LOOKS: Final = 50
"""Most looks after a prompt: what draws on and on is left at that."""
_SETTLE = f"""
screen=$(tmux -S /run/terminal/tmux capture-pane -p -t main) || exit 1
while [ $looks -lt {_LOOKS} ]; do
  sleep {LOOK_S}
  before=$screen
  screen=$(tmux -S /run/terminal/tmux capture-pane -p -t main) || exit 1
  if [ "$screen" = "$before" ]; then break; fi
  looks=$((looks + 1))
done
printf '%s\\n' "$screen"
"""
_START = f"""
set -e
mkdir -p /run/terminal && echo 0 > /run/terminal/prompts
tmux -f /dev/null -S /run/terminal/tmux new-session -d -s main -c "$4" -x "$1" -y "$2" \\
  bash -i \\; set -g status off \\; set -g history-limit 2000 \\; set -g escape-time 20
timeout "$3" tmux -S /run/terminal/tmux wait-for prompt-1
looks=0
{_SETTLE}"""
_TYPE = f"""
read n < /run/terminal/prompts; n=$((n + $1))
tmux -S /run/terminal/tmux load-buffer -b keys - \\; paste-buffer -d -b keys -t main || exit 1
[ "$2" != 0 ] || exit 0
looks=0
timeout "$2" tmux -S /run/terminal/tmux wait-for prompt-$n || looks={_LOOKS}
{_SETTLE}"""
_KEY = re.compile(
    r"([CMS]-)+\S|Enter|Escape|Space|Tab|BTab|BSpace|Up|Down|Left|Right|Home|End|PageUp|PageDown"
    r"|PgUp|PgDn|IC|DC|Insert|Delete|F([1-9]|1[0-2])"
)
_SHELL = ("sh", "-c")
_TMUX = ("tmux", "-S", "/run/terminal/tmux")
_NOTHING: Mapping[str, str] = {}


class TerminalGoneError(SandboxError):
    """The tmux session has ended: the agent ended it, or it was over its memory."""


def read_keys(text: str) -> tuple[str, ...]:
    """Return the names of keys if the text is nothing else (``C-x``, ``Escape``); else none."""
    words = text.split()
    return tuple(words) if words and all(map(_KEY.fullmatch, words)) else ()


class TmuxSession:
    """One session in a sandbox, of `width` columns and `height` rows."""

    def __init__(
        self,
        sandbox: RunnerSandbox,
        sandboxes: TaskSandboxes,
        width: int,
        height: int,
        clock: Clock,
    ) -> None:
        self._sandbox, self._sandboxes, self._clock = sandbox, sandboxes, clock
        self._size = (str(width), str(height))

    async def start(self) -> str:
        """Start bash in tmux; return the screen with its first prompt.

        Raises ConfigError for an image without them.
        """
        folder = self._sandboxes.task.recipe.folder
        outcome = await self._run(
            *_SHELL, _START, "sh", *self._size, str(_ANSWER_S), folder, env=_PROMPTS
        )
        if outcome.exit_code:
            told = outcome.stderr.decode(errors="replace").strip()
            raise ConfigError(f"tmux does not start: {told}", "use an image that has tmux and bash")
        return _screen(outcome)

    async def read_screen(self) -> str:
        """Return the screen as text. Raises TerminalGoneError."""
        return _screen(await self._run(*_TMUX, "capture-pane", "-p", "-t", "main"))

    async def type(self, keys: str, *, block: bool, min_s: float = 0.0, max_s: float) -> str:
        """Type keys; return the screen after they took effect, or after `max_s`.

        With `block`, text that ends with a line end is over when bash shows its next prompt.
        """
        deadline = self._clock.monotonic() + max_s
        if names := read_keys(keys):
            _screen(await self._run(*_TMUX, "send-keys", "-t", "main", *names))
        elif keys:
            wait_s = max_s if block and keys.endswith("\n") else 0.0
            screen = await self._paste(keys, wait_s)
            if wait_s:
                return screen
        await asyncio.sleep(min(min_s, max_s))
        return await self._settle(await self.read_screen(), deadline)

    async def _settle(self, before: str, deadline: float) -> str:
        """Return the screen once two looks saw the same."""
        while True:
            await asyncio.sleep(LOOK_S)
            now = await self.read_screen()
            if now == before or self._clock.monotonic() >= deadline:
                return now
            before = now

    async def _paste(self, text: str, wait_s: float) -> str:
        words = (str(text.count("\n")), f"{wait_s:.3f}" if wait_s else "0")
        command = (*_SHELL, _TYPE, "sh", *words)
        return _screen(await self._run(*command, stdin=text.encode(), more_s=wait_s))

    async def _run(
        self,
        *argv: str,
        stdin: bytes = b"",
        more_s: float = 0.0,
        env: Mapping[str, str] = _NOTHING,
    ) -> Outcome:
        command = self._sandboxes.command(*argv, stdin=stdin, env=env)
        return await self._sandbox.run(command, self._sandboxes.limits(_ANSWER_S + more_s))


def _screen(outcome: Outcome) -> str:
    if outcome.exit_code:
        raise TerminalGoneError("the terminal has ended", "start another episode")
    return outcome.stdout.decode(errors="replace").rstrip("\n")
