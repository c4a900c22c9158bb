"""Pure. Makes episodes of four tasks that ship, in the format of replies, for the tiny model.

Their commands are drawn from a list without regard to the task's state: some look, some change
files rightly, more change them wrongly, and an episode ends at any time. So the model learns the
format and which commands belong to a task, and nothing about which of them solve it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_LOOKS = ("ls", "pwd", "ls -l", "cat *.txt", "date", "echo ok")
_LOOK, _END = 0.2, 0.25
"""Shares of the commands that look, and of the replies that end the episode."""
_MOST_TURNS = 9
_PROMPT = "root:/app#"
_OUTPUTS = ((), (), ("rotate.py  sample",), ("0001 INFO done", "3"))
Place = str | tuple[str, ...]
_CHANGES: Mapping[str, Sequence[Sequence[Place]]] = {
    "devops_task": (
        (
            "sed -i -e 's/iterdir()/glob(\"",
            ("backup-??-??-????", "*"),
            ".tar\")/' -e '/names = /a\\    names.sort(",
            (
                'key=lambda n: n.split("-")[::-1]',
                "key=lambda n: n[13:17] + n[10:12] + n[7:9]",
                "reverse=True",
            ),
            ")' -e 's/-int(keep) - 1/",
            ("-int(keep)", "len(names) - int(keep)", "int(keep)"),
            "/' rotate.py",
        ),
        (
            (
                "ls sample",
                "wc -l rotate.py",
                "python3 rotate.py sample 9",
                "python3 rotate.py sample 3",
                "tail -1 rotate.py",
                "cp rotate.py old.py",
                "echo >> rotate.py",
                "sed -i 1,4d rotate.py",
            ),
        ),
    ),
    "count_lines": (
        ("cat logs/", ("*", "web"), ".log | grep -c", ("w", "", "i"), " ERROR > errors.txt"),
        (("wc -l logs/*.log", "rm errors.txt", "grep ERROR logs/web.log > errors.txt"),),
    ),
    "mend_config": (
        (
            "sed -i -e 's/^host.*/host = ",
            ("127.0.0.1", "localhost"),
            "/' -e 's/^port.*/port = ",
            ("8080", "80"),
            "/' -e '",
            ("7,9d", "14,16d"),
            ";s/ processes",
            ("//", "/ workers/"),
            "' service.ini",
        ),
        (("ls data", "sed -i /folder/d service.ini", "echo >> service.ini"),),
    ),
    "edit_letter": (
        ("sed -i ", ("/DRAFT/d", "2,3d"), " letter.txt"),
        ("sed -i s/Tuseday/", ("Tuesday", "Monday"), "/ letter.txt"),
        ("echo 'Yours, the night shift' ", (">>", ">"), " letter.txt"),
    ),
}
"""Task → its commands, each of pieces; at some places one of several is drawn, the right one first.
A command for another task is drawn from all."""


def make_chats(
    instructions: Mapping[str, str], rows: int, draw: "Random", count: int
) -> list[tuple[str, str]]:
    """Return pairs of a chat, by the plain template, and the reply to it.

    ``instructions`` maps names of tasks to texts; a screen has at most ``rows`` rows.
    """
    names = sorted(instructions)
    return [_chat(name, instructions[name], rows, draw) for name in draw.choices(names, k=count)]


def _chat(name: str, instruction: str, rows: int, draw: "Random") -> tuple[str, str]:
    screen = [_PROMPT]
    chat = f"{instruction.strip()}\n\n{_PROMPT}\n>>>\n"
    for _ in range(draw.randrange(_MOST_TURNS)):
        command = _command(name, draw)
        screen[-1:] = [f"{_PROMPT} {command}", *draw.choice(_OUTPUTS), _PROMPT]
        screen = screen[-rows:]
        chat += f"{_reply(command, ends=False)}<end>" + "\n".join(screen) + "\n>>>\n"
    return chat, _reply(_command(name, draw), ends=draw.random() < _END)


def _command(name: str, draw: "Random") -> str:
    if draw.random() < _LOOK:
        return draw.choice(_LOOKS)
    commands = _CHANGES.get(name) or [each for task in _CHANGES.values() for each in task]
    return "".join(
        place if isinstance(place, str) else draw.choice(place) for place in draw.choice(commands)
    )


def _reply(command: str, *, ends: bool) -> str:
    commands = [{"keystrokes": f"{command}\n", "duration": 1.0}]
    reply = {"analysis": "", "plan": "", "commands": commands, "task_complete": ends}
    return json.dumps(reply)
