"""A terminal takes keys and shows its screen; a step ends with its command."""

import asyncio
import json
from pathlib import Path

import pytest

from Daddy.core.errors import CopyFailedError, UsageError
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, TerminalAction
from Daddy.terminal.tmux_session import read_keys
from tests.patience import PATIENCE_S, until
from tests.terminal.episodes import COUNT, copy_task, play, read_result, type_and_finish


def typed(keys: str, *, block: bool = True) -> TerminalAction:
    return TerminalAction(keys, block=block, max_timeout_sec=PATIENCE_S)


def test_a_blocking_step_ends_with_its_last_command(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> None:
        screen = (await env.step(typed("cat <<END\nfirst\nEND\nsleep 0.5\nfalse\n"))).obs
        assert screen.splitlines()[-4:-1] == ["first", "root:/app# sleep 0.5", "root:/app# false"]
        assert (await env.step(typed("echo code $?\n"))).obs.endswith("code 1\nroot:/app#")
        assert "ß€;\n" in (await env.step(typed("echo 'ß€;'\n"))).obs
        assert (await env.step(typed("sleep 0.5; echo over\n"))).obs.endswith("over\nroot:/app#")

    play(COUNT, tmp_path, story)


def test_text_for_a_program_reaches_it_whole(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> str:
        program = "python3 -q\nprint(6 * 7)\nexit()\n"
        await env.step(TerminalAction(program, max_timeout_sec=2.0))
        return (await env.step(typed("echo goes on\n"))).obs

    screen = play(COUNT, tmp_path, story)
    assert "\n42\n" in screen
    assert screen.endswith("goes on\nroot:/app#")


def test_an_editor_and_a_pager_are_driven_by_keys(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> str:
        await env.step(typed("vi note\n", block=False))
        for keys in ("ihello world", "Escape", "0x"):
            await env.step(typed(keys, block=False))
        await env.step(typed(":wq\n", block=False))
        await env.step(typed("less logs/web.log\n", block=False))
        assert "0000" in await env.render()
        await env.step(typed("q", block=False))
        return (await env.step(typed("clear; cat note\n"))).obs

    assert play(COUNT, tmp_path, story).splitlines()[0] == "ello world"


def test_a_command_without_an_end_is_left_at_its_time_and_can_be_ended(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> str:
        await env.step(TerminalAction("sleep 1000\n", max_timeout_sec=0.5))
        await env.step(typed("C-c", block=False))
        return (await env.step(typed("echo goes on\n"))).obs

    assert "goes on\n" in play(COUNT, tmp_path, story)


def test_an_agent_may_remove_its_working_folder(tmp_path: Path) -> None:
    result = type_and_finish(COUNT, tmp_path, ["cd /; rm -r /app", "echo still here"])
    assert (result.reward, result.info["reason"]) == (0.0, "reward of the verifier")


def test_every_episode_leaves_records_that_can_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    type_and_finish(COUNT, tmp_path, [r"printf '\033]0;owned\007\033[31mred\n'"])
    assert read_result(tmp_path)["steps"] == 2
    (folder,) = {path.parent for path in tmp_path.glob("*/trajectory.jsonl")}
    steps = [json.loads(line) for line in (folder / "trajectory.jsonl").read_text().splitlines()]
    assert [(step["done"], step["reward"]) for step in steps] == [(False, 0.0), (True, 0.0)]
    header, *events = (folder / "terminal.cast").read_text().splitlines()
    assert json.loads(header)["version"] == 2
    for event in events:
        seconds, kind, text = json.loads(event)
        assert (type(seconds), kind) == (float, "o")
        shown = text.removeprefix("\x1b[H\x1b[2J").replace("\r\n", "")
        assert shown.isprintable()


def test_a_closed_terminal_can_be_closed_again_and_not_be_used(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> None:
        assert not (await env.step(typed("true\n"))).done
        await env.close()
        await env.close()
        with pytest.raises(UsageError, match="call reset first"):
            await env.step(typed("true\n"))
        first, _ = await env.reset()
        assert "errors.txt" in first
        result = await env.step(TerminalAction(done=True))
        _, reward, done, _ = result
        assert (reward, done) == (result.reward, result.done) == (0.0, True)

    play(COUNT, tmp_path, story)


def test_the_agents_changes_are_kept_on_request(tmp_path: Path) -> None:
    type_and_finish(COUNT, tmp_path, [], delete_env=False)
    assert len(list(tmp_path.glob("*/changes.tar"))) == 1


def test_a_build_that_fails_leaves_no_part_of_its_archive(tmp_path: Path) -> None:
    dockerfile = "FROM debian:12\nRUN mkdir -p $(printf 'd/%.0s' $(seq 1200))\n"
    task = copy_task(COUNT, tmp_path / "task", environment__Dockerfile=dockerfile)
    with pytest.raises(CopyFailedError, match="cannot save"):
        type_and_finish(task, tmp_path / "runs", [])
    assert list((tmp_path / "runs/layers").iterdir()) == []


def test_a_cancelled_grading_leaves_no_changes(tmp_path: Path) -> None:
    task = copy_task(COUNT, tmp_path / "task", **{"tests__test.sh": "sleep 100"})

    async def story(env: AsyncTerminalGymEnv) -> None:
        grading = asyncio.ensure_future(env.verify())
        assert await asyncio.to_thread(until, lambda: [*tmp_path.glob("*/changes.tar")])
        grading.cancel()
        await asyncio.wait([grading])

    play(task, tmp_path, story)
    assert not [*tmp_path.glob("*/changes.tar")]


def test_terminals_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    async def story(env: AsyncTerminalGymEnv) -> None:
        another = AsyncTerminalGymEnv(COUNT, runs_dir=tmp_path / "other", image="host")
        await another.reset()
        try:
            await asyncio.gather(*(e.step(typed("echo 1 > /app/mine\n")) for e in (env, another)))
            await another.step(typed("kill -9 -1\n"))
            assert "mine" in (await env.step(typed("ls\n"))).obs
        finally:
            await another.close()

    play(COUNT, tmp_path, story)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("C-x", ("C-x",)),
        ("Escape C-o\n", ("Escape", "C-o")),
        ("M-Left F12", ()),
        ("F12", ("F12",)),
        ("Enter text", ()),
        ("ls\n", ()),
        ("", ()),
    ],
)
def test_text_that_names_keys_alone_presses_them(text: str, names: tuple[str, ...]) -> None:
    assert read_keys(text) == names
