"""The coordinator as a program of its own: contract by curl, parallel clients, kills, strangers."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import ExitCode
from Daddy.search import coordinator, sweep_files
from tests.components import program
from tests.patience import PATIENCE_S

SHIM = (
    Path(__file__).resolve().parents[2]
    / "scripts/examples/metta/metta/sweep/docker/scripts/dummy-api-server.py"
)
Serve = Callable[..., tuple[subprocess.Popen[str], int]]

CLIENT = """
import http.client, json, sys, threading
ports, each = [int(port) for port in sys.argv[1].split(",")], int(sys.argv[2])
def ask(port):
    for _ in range(each):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        line.request("POST", "/sweeps/many/runs/next")
        print(json.loads(line.getresponse().read())["run_id"] + "\\n", end="", flush=True)
threads = [threading.Thread(target=ask, args=(ports[n % len(ports)],)) for n in range(10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Provide a function that starts a coordinator and returns it with its port."""
    with ExitStack() as stack:

        def start(*more: str) -> tuple[subprocess.Popen[str], int]:
            argv = [sys.executable, SHIM, "--port", "0", "--run-dir", tmp_path, *more]
            process = subprocess.Popen(argv, stdout=-1, stderr=-1, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:"), process.communicate()
            return process, int(line.rpartition(":")[2])

        yield start


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as line:
        line.request(method, path, body or None, headers)
        reply = line.getresponse()
        return reply.status, json.loads(reply.read())


def next_number(port: int, sweep: str = "many") -> int:
    status, value = ask(port, "POST", f"/sweeps/{sweep}/runs/next")
    assert status == 200, value
    return int(value["run_id"].removeprefix(f"{sweep}.r."))


def raw(port: int, sent: bytes) -> bytes:
    """Send bytes, then nothing more; return the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        answer = b""
        with suppress(ConnectionError):
            line.sendall(sent)
            with suppress(OSError):  # it has answered and closed: not connected
                line.shutdown(socket.SHUT_WR)
            while piece := line.recv(4096):
                answer += piece
        return answer


def test_the_contract_as_curl_sees_it(serve: Serve) -> None:
    curl, (_, port) = program("curl", "curl"), serve()

    def typed(path: str, *flags: str) -> Any:
        argv = [curl, "-sS", "--noproxy", "*", *flags, f"http://localhost:{port}{path}"]
        return json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)

    record = json.dumps({"project": "p", "entity": "e", "wandb_sweep_id": "w1"})
    create = ("-X", "POST", "-H", "Content-Type: application/json", "-d", record)
    assert typed("/health") == {"status": "healthy"}
    assert typed("/sweeps/test") == {"exists": False, "wandb_sweep_id": ""}
    first = typed("/sweeps/test/create_sweep", *create)
    assert first["created"] is True
    again = typed("/sweeps/test/create_sweep", "-X", "POST")
    assert again == {"created": False, "sweep_id": first["sweep_id"]}
    assert typed("/sweeps/test") == {"exists": True, "wandb_sweep_id": "w1"}
    assert typed("/sweeps/test/runs/next", "-X", "POST") == {"run_id": "test.r.1"}
    assert typed("/sweeps/test/runs/next", "-X", "POST", "-d", "{}") == {"run_id": "test.r.2"}


def test_a_thousand_parallel_requests_to_two_servers_get_a_thousand_numbers(serve: Serve) -> None:
    ports = [serve()[1], serve()[1]]
    assert ask(ports[0], "POST", "/sweeps/many/create_sweep")[1]["created"] is True
    argv = [sys.executable, "-c", CLIENT, ",".join(map(str, ports)), "25"]
    clients = [subprocess.Popen(argv, stdout=-1, text=True) for _ in range(4)]
    names = [name for each in clients for name in each.communicate(timeout=PATIENCE_S)[0].split()]
    assert sorted(names) == sorted(f"many.r.{number}" for number in range(1, 1001))


def test_a_sweep_is_created_once_by_two_servers(serve: Serve) -> None:
    ports = [serve()[1], serve()[1]] * 8
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda port: ask(port, "POST", "/sweeps/a/create_sweep")[1], ports))
    assert sum(value["created"] for value in made) == 1
    assert len({value["sweep_id"] for value in made}) == 1


def test_a_killed_coordinator_repeats_no_number(serve: Serve) -> None:
    process, port = serve()
    ask(port, "POST", "/sweeps/many/create_sweep")
    numbers: list[int] = []
    enough = threading.Event()

    def ask_on() -> None:
        with suppress(OSError, http.client.HTTPException):
            while True:
                numbers.append(next_number(port))
                if len(numbers) > 50:
                    enough.set()

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(ask_on)
        assert enough.wait(PATIENCE_S)
        process.kill()
    _, port = serve()
    assert ask(port, "POST", "/sweeps/many/create_sweep")[1]["created"] is False
    numbers += [next_number(port) for _ in range(10)]
    assert len(set(numbers)) == len(numbers) > 60


@pytest.mark.parametrize("name", ["..", ".", "a..b", ".a", "%2e%2e", "a" * 65, "a%00", "a%0a", ""])
def test_a_bad_name_is_refused_and_not_repeated(serve: Serve, tmp_path: Path, name: str) -> None:
    _, port = serve()
    before = sorted(tmp_path.rglob("*"))
    for method, rest in (("GET", ""), ("POST", "/create_sweep"), ("POST", "/runs/next")):
        status, value = ask(port, method, f"/sweeps/{name}{rest}")
        assert (status, value.keys()) == (400, {"detail"})
        assert value["detail"].startswith("this cannot name a sweep: use ")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/sweeps", 404),
        ("GET", "/sweeps/a/../b", 404),
        ("GET", "/sweeps/a/runs/next", 404),
        ("POST", "/sweeps/a", 404),
        ("POST", "/health", 404),
        ("POST", "/sweeps/unknown/runs/next", 404),
        ("DELETE", "/sweeps/a", 501),
    ],
)
def test_an_unknown_path_method_or_sweep(serve: Serve, method: str, path: str, status: int) -> None:
    answer = ask(serve()[1], method, path)
    assert (answer[0], list(answer[1])) == (status, ["detail"])


@pytest.mark.parametrize(
    "body",
    ["x", "[]", "{", '{"a": 1, "a": 2}', '{"project": 1}', '{"entity": "\\u001b[2J"}', "[" * 4000],
)
def test_a_malformed_body_is_refused_and_creates_nothing(serve: Serve, body: str) -> None:
    _, port = serve()
    status, value = ask(port, "POST", "/sweeps/a/create_sweep", body)
    assert (status, list(value)) == (400, ["detail"])
    assert ask(port, "GET", "/sweeps/a")[1]["exists"] is False


def test_pages_of_a_browser_and_foreign_hosts_are_refused(serve: Serve) -> None:
    _, port = serve()
    for headers in ({"Origin": "http://localhost"}, {"Host": "evil.example"}):
        assert ask(port, "POST", "/sweeps/a/create_sweep", **headers)[0] == 403
    assert raw(port, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert ask(port, "GET", "/sweeps/a")[1]["exists"] is False


HEAD = b"POST /sweeps/a/create_sweep HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"Content-Length: 99999999\r\n\r\n", b"413"),
        (HEAD + b"Content-Length: -1\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 9\r\n\r\n{}", b""),
        (HEAD, b""),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", b"411"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"\x00\xff<script> / HTTP/1.1\r\n\r\n", b""),
        (b"GET /<script> HTTP/9.9\r\n\r\n", b"505"),
        (b"\x16\x03\x01" * 100 + b"\n", b""),
        (HEAD + b"A: " + b"a" * (1 << 20), b""),
        (b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 200, b""),
    ],
)
def test_garbage_gets_a_short_answer_and_leaves_the_server_alive(
    serve: Serve, sent: bytes, status: bytes
) -> None:
    process, port = serve()
    answer = raw(port, sent)
    assert status in answer.partition(b"\r\n")[0]
    assert b"script" not in answer
    assert len(answer) < 500
    assert ask(port, "GET", "/sweeps/a") == (200, {"exists": False, "wandb_sweep_id": ""})
    process.terminate()
    assert process.communicate(timeout=PATIENCE_S) == ("", ""), "no traceback"


def test_an_endless_body_is_not_read(serve: Serve) -> None:
    curl, (_, port) = program("curl", "curl"), serve()
    argv = [curl, "-s", "-X", "POST", "-T", "/dev/zero", f"http://localhost:{port}/sweeps/a"]
    done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.startswith(b'{"detail": ')


def test_four_hundred_silent_connections_keep_nobody_out(serve: Serve) -> None:
    process, port = serve()
    ask(port, "POST", "/sweeps/many/create_sweep")
    lines: list[socket.socket] = []
    with ExitStack() as stack:
        for number in range(400):
            lines.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            lines[-1].sendall(HEAD[:20])
            if number % 50 == 49:
                assert next_number(port) == (number + 1) // 50
        for line in lines[:200]:  # 128 may wait: the oldest were closed
            line.settimeout(PATIENCE_S)
            with suppress(ConnectionError):
                while line.recv(4096):
                    pass
    assert process.poll() is None


def test_a_slow_request_ends_at_its_deadline(tmp_path: Path) -> None:
    class Clock:
        time = 0.0

        def monotonic(self) -> float:
            return self.time

    clock, (ours, theirs) = Clock(), socket.socketpair()
    with ours, theirs:
        stream = coordinator.RequestBytes(ours, clock)  # type: ignore[arg-type]
        buffer = bytearray(100)
        for _ in range(5):
            theirs.sendall(b"x")
            assert stream.readinto(buffer) == 1
            clock.time += coordinator.REQUEST_S / 5
        theirs.sendall(b"x")
        with pytest.raises(TimeoutError):
            stream.readinto(buffer)


def test_a_busy_port_is_named_and_nothing_is_served(serve: Serve, tmp_path: Path) -> None:
    _, port = serve()
    argv = [sys.executable, SHIM, "--port", "0", "--port", str(port), "--run-dir", tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (ExitCode.NETWORK, "")
    assert f"port {port} of 127.0.0.1 cannot be used" in done.stderr
    assert "choose another port: --port PORT" in done.stderr


@pytest.mark.parametrize("value", ["x", "-1", "70000"])
def test_a_port_that_is_none_is_an_error_of_usage(value: str) -> None:
    argv = [sys.executable, SHIM, "--port", value]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == ExitCode.USAGE
    assert repr(value) in done.stderr or "expected one argument" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_ports_at_once(serve: Serve, number: signal.Signals) -> None:
    process, port = serve("--port", "0")
    assert process.stdout
    second = int(process.stdout.readline().rpartition(":")[2])
    assert ask(second, "GET", "/health") == ask(port, "GET", "/health")
    with socket.create_connection(("127.0.0.1", port)):  # a silent client holds up nothing
        process.send_signal(number)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == ExitCode.DONE


def test_without_flags_it_serves_the_ports_of_the_document() -> None:
    assert coordinator.API_PORTS == (8080, 8081)
    assert coordinator.make_parser().parse_args([]).port is None


def test_damaged_files_give_an_error_without_their_path(serve: Serve, tmp_path: Path) -> None:
    process, port = serve()
    ask(port, "POST", "/sweeps/a/create_sweep")
    (tmp_path / "sweeps/a/sweep.json").write_text("{")
    for _ in range(3):
        status, value = ask(port, "POST", "/sweeps/a/runs/next")
        assert (status, value) == (500, {"detail": "the sweep's files cannot be used"})
    process.terminate()
    errors = process.communicate(timeout=PATIENCE_S)[1]
    assert len(re.findall(r"sweep\.json is not valid JSON", errors)) == 1


def test_bounds_of_sweeps_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_files, "MAX_SWEEPS", 2)
    monkeypatch.setattr(sweep_files, "MAX_RUNS", 2)
    server = coordinator.Coordinator(tmp_path)
    made = [server.answer("POST", f"/sweeps/s{n}/create_sweep", b"")[0] for n in range(3)]
    assert made == [200, 200, 409]
    assert server.answer("POST", "/sweeps/s0/create_sweep", b"")[1]["created"] is False
    given = [server.answer("POST", "/sweeps/s0/runs/next", b"") for _ in range(3)]
    assert [status for status, _ in given] == [200, 200, 409]
