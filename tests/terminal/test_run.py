"""``python -m Daddy.terminal run`` plays episodes and prints their rewards."""

import json
import os
import pty
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from Daddy.core.entry_point import run_entry
from Daddy.terminal.__main__ import main
from tests.terminal.episodes import COUNT, backend, copy_task

REPLIES = [
    {"commands": [{"keystrokes": "cd logs\n"}, {"keystrokes": "cat *.log | grep -cw ERROR > n\n"}]},
    {"commands": [{"keystrokes": "mv n ../errors.txt\n", "duration": 30}], "task_complete": True},
]


def run(runs: Path, *flags: str, task: Path = COUNT) -> int:
    backend()  # skips the test without it
    return run_entry(main, ["run", str(task), "--image", "host", "--runs-dir", str(runs), *flags])


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Answer each request with the next of the texts in `replies`; none left: status 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((self.path, self.headers["Authorization"], body))
            text = server.replies.pop(0) if server.replies else None
            self.send_response(200 if text else 500)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": text}}]}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.replies = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def test_several_episodes_play_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "-n", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "task count_lines: image host"
    assert sum("reward 1 (reward of the verifier)" in line for line in lines) == 3
    assert lines[-1].startswith("mean reward 1.000 of 3, 0 dropped, ")
    assert len(list(tmp_path.glob("count_lines-*/result.json"))) == 3


def test_an_agent_that_does_nothing_earns_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--agent", "nop") == 0
    assert "mean reward 0.000 of 1" in capsys.readouterr().out


def test_a_model_types_what_its_replies_say(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    server.replies += [json.dumps({"analysis": "", "plan": "", **reply}) for reply in REPLIES]
    assert run(tmp_path, "--agent", address(server), "--model-name", "tiny") == 0
    told = capsys.readouterr().out
    assert "mean reward 1.000 of 1" in told
    assert "a-secret" not in told
    (path, key, first), (_, _, second) = server.asked
    assert (path, key, first["model"]) == ("/v1/chat/completions", "Bearer a-secret", "tiny")
    assert "errors.txt" in first["messages"][1]["content"]
    assert "cat *.log" in second["messages"][-1]["content"]


def test_a_reply_that_is_no_json_ends_the_episode_with_zero(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies.append("I would rather not.")
    assert run(tmp_path, "--agent", address(server)) == 0
    assert "reward 0 (a reply broke the format: there is no JSON" in capsys.readouterr().out


def test_a_server_that_fails_ends_all_episodes(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--agent", address(server), "-n", "2") == 8
    assert "answers with status 500" in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_a_person_plays_in_this_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"cat logs/*.log | grep -cw ERROR > errors.txt\r\x1d")
    before = os.dup(0)
    os.dup2(theirs, 0)
    try:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
        assert run(tmp_path, "--agent", "human") == 0
    finally:
        os.dup2(before, 0)
        for descriptor in (before, ours, theirs):
            os.close(descriptor)
    (path,) = tmp_path.glob("*/result.json")
    assert json.loads(path.read_text())["reward"] == 1.0


def test_a_dropped_episode_is_counted_and_changes_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = copy_task(COUNT, tmp_path / "task")
    (task / "tests/test.sh").write_text("exit 1")
    assert run(tmp_path / "runs", "--agent", "nop", task=task) == 13
    assert "mean reward none of 0, 1 dropped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--agent", "ftp://x"), 2, "is no agent"),
        (("--agent", "human", "-n", "2"), 2, "one episode at a time"),
        (("--agent", "human"), 2, "needs a terminal"),
        (("--backend", "process", "--allow-unsafe"), 3, "no root folder"),
        (("--backend", "daytona"), 3, "DAYTONA_API_KEY"),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(
    flags: tuple[str, ...], code: int, message: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    assert run(tmp_path, *flags) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RUN echo no >&2; false", "line 4 failed (exited): no"),
        ("COPY absent /app/", "line 4: there is no "),
        ("RUN curl http://192.0.2.1", "line 4 failed"),
    ],
)
def test_a_step_of_the_dockerfile_that_fails_is_named_by_its_line(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dockerfile = (COUNT / "environment/Dockerfile").read_text() + line
    task = copy_task(COUNT, tmp_path / "task", environment__Dockerfile=dockerfile)
    assert run(tmp_path / "runs", task=task) == 3
    assert message in capsys.readouterr().err
