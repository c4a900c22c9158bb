"""A model's reply is one JSON object; the first thing that breaks the format is named."""

import pytest

from Daddy.terminal.terminus_reply import LONGEST_S, TerminusReply, TypedCommand, parse_reply

WHOLE = (
    '{"analysis": "a", "plan": "p", "commands": [{"keystrokes": "ls\\n", "duration": 0.1},'
    ' {"keystrokes": "C-c"}], "task_complete": true}'
)


@pytest.mark.parametrize("text", [WHOLE, f"Well:\n```json\n{WHOLE}\n```\nDone."])
def test_a_reply_is_read_also_from_a_code_fence(text: str) -> None:
    commands = (TypedCommand("ls\n", 0.1), TypedCommand("C-c", 1.0))
    assert parse_reply(text) == TerminusReply(commands, True)


def test_a_longer_wait_than_any_is_the_longest() -> None:
    reply = parse_reply(WHOLE.replace("0.1", "1" + "0" * 320))
    assert reply.commands[0].duration_s == LONGEST_S


def test_a_reply_without_commands_may_only_end_the_task() -> None:
    assert parse_reply('{"analysis": "", "plan": "", "commands": []}').commands == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ls", "there is no JSON object"),
        ("{]}", "Expecting"),
        ('{"analysis": "", "plan": ""}', "commands = None is missing"),
        ('{"analysis": "", "plan": 3, "commands": []}', "plan = 3"),
        ('{"plan": "", "commands": []}', "analysis = None"),
        ('{"analysis": "", "plan": "", "commands": ["ls"]}', "'ls' is no command"),
        ('{"analysis": "", "plan": "", "commands": [{"keystrokes": 1}]}', "keystrokes = 1"),
        (WHOLE.replace("0.1", "-1"), "duration -1"),
        (WHOLE.replace("0.1", "NaN"), "duration nan"),
        (WHOLE.replace("ls", "\\ud800"), "surrogates"),
        (WHOLE.replace("true", '"yes"'), "task_complete = 'yes'"),
        ("{" + '"a":[' * 100_000 + "]" * 100_000 + "}", "deep|Expecting"),
    ],
)
def test_a_reply_that_breaks_the_format_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_reply(text)
