"""Two nodes and the coordinator as a person types them: names, network, files, kills, the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from Daddy.core.errors import ExitCode
from Daddy.search.node_plan import NODES, RANKS, node_environment
from tests.components import program
from tests.patience import PATIENCE_S, until

LAUNCH = [sys.executable, "-m", "Daddy.docker_launch"]
COMPOSE = (
    Path(__file__).resolve().parents[2]
    / "scripts/examples/metta/metta/sweep/docker/docker-compose.yml"
)
Launch = Callable[..., subprocess.CompletedProcess[str]]

MEET = """
import json, os, socket, sys, time
rank, at = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    line = socket.create_server(at).accept()[0]
while rank == 1:
    try:
        line = socket.create_connection(at)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
line.sendall(b"x") if rank == 0 else line.recv(1)
outside = socket.socket().connect_ex(("192.0.2.1", 80))
rights = {l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")}
print(json.dumps({"host": socket.gethostname(), "rank": rank, "size": os.environ["WORLD_SIZE"],
    "at": socket.gethostbyname(at[0]), "own": socket.gethostbyname(socket.gethostname()),
    "outside": os.strerror(outside), "rights": sorted(rights)}), flush=True)
rank or line.recv(1)
"""
SIGNALLED = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(4 + int(os.environ["RANK"])))
print("waits", flush=True)
signal.pause()
"""
KILLED_ONCE = """
import os, signal, pathlib, time
if os.environ["RANK"] == "0":
    while not pathlib.Path("second").exists():
        time.sleep(0.05)
elif pathlib.Path("first").exists():
    pathlib.Path("second").touch()
    signal.pause()
else:
    pathlib.Path("first").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
ASK = """
import http.client, sys
line = http.client.HTTPConnection("metta-dummy-api", 8081, timeout=60)
line.request("POST", "/sweeps/s/" + sys.argv[1])
print(line.getresponse().read().decode().strip())
"""


def launcher(home: Path) -> Launch:
    """Return a function that types a command of the person with this home."""

    def launch(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(home), **options.pop("env", {})}
        return subprocess.run(
            [*LAUNCH, "--run-dir", str(home / "runs"), *words],
            **{"stdin": -3, "capture_output": True, "text": True, **options},
            env=environment,
            timeout=PATIENCE_S,
            check=False,
        )

    return launch


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    for name in (".ssh/key", ".netrc", "diary"):
        (home / name).write_text("secret")
    return home


@pytest.fixture(scope="module")
def launch(home: Path) -> Iterator[Launch]:
    """Provide the launcher while nodes run, which end with the tests."""
    program("bwrap", "bubblewrap")
    launch = launcher(home)
    try:
        started = launch("start", "--hours", "1")
        assert started.returncode == 0, started
        assert "credentials, read-only: .netrc .ssh" in started.stdout
        yield launch
    finally:
        launch("stop")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Launch]:
    """Provide the launcher of another person, whose nodes end with the test."""
    program("bwrap", "bubblewrap")
    launch = launcher(tmp_path)
    yield launch
    launch("stop")


def processes_of(runs_folder: Path) -> list[str]:
    """Command lines of nodes, supervisors and commands of a runs folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(runs_folder) in line and "docker_launch" not in line:
            found.append(line)
    return found


def test_status_names_the_nodes_with_rank_and_state(launch: Launch) -> None:
    shown = launch("status")
    rows = [line.split() for line in shown.stdout.splitlines()[:3]]
    assert (shown.returncode, [row[0] for row in rows]) == (0, [node.name for node in NODES])
    assert [row[1] for row in rows] == ["running"] * 3
    assert "rank 1" in shown.stdout
    assert "already" in launch("start").stdout


def test_ranks_meet_by_name_and_reach_nothing_outside(launch: Launch) -> None:
    met = launch("run", "--nodes", "2", "--", "python", "-c", MEET)
    said = dict(line.split(" ", 1) for line in met.stdout.splitlines())
    common = {
        "size": "2",
        "at": "127.0.0.2",
        "outside": "Network is unreachable",
        "rights": ["0000000000000000"],
    }
    assert {name: json.loads(line) for name, line in said.items()} == {
        "[master]": {"host": "metta-sweep-master", "rank": 0, "own": "127.0.0.2", **common},
        "[worker]": {"host": "metta-sweep-worker", "rank": 1, "own": "127.0.0.3", **common},
    }


def test_a_node_shows_credentials_read_only_and_nothing_else_of_the_home(
    launch: Launch, home: Path
) -> None:
    tried = (
        f"cat ~/.netrc; ls -A ~; ls -A {home}; echo >> ~/.netrc; echo >> runs/nodes/hosts; ps ax"
    )
    shown = launch("shell", "worker", "-c", f"cd {home} && {tried}")
    assert "secret" in shown.stdout
    assert ".ssh" in shown.stdout
    assert "diary" not in shown.stdout
    assert shown.stderr.count("Read-only file system") == 2
    assert "coordinator" not in shown.stdout, "a process of another node"


def test_a_killed_coordinator_is_there_again_and_repeats_no_name(launch: Launch) -> None:
    def ask(path: str) -> str:
        return launch("shell", "-c", f"python -c '{ASK}' {path}").stdout.strip()

    assert json.loads(ask("create_sweep"))["created"]
    assert ask("runs/next") == '{"run_id": "s.r.1"}'
    launch("shell", "metta-dummy-api", "-c", "kill -9 $(pgrep -f search.coordinator)")
    assert until(lambda: ask("runs/next") == '{"run_id": "s.r.2"}')
    assert until(lambda: launch("status").returncode == 0)


def test_a_killed_rank_is_started_again_and_ends_with_rank_0(launch: Launch) -> None:
    done = launch("run", "--nodes", "2", "--", "python", "-c", KILLED_ONCE)
    assert done.returncode == 0, done
    assert "[worker] exit code 137: started again (1 of 3)" in done.stdout


def test_a_signal_reaches_both_ranks_and_the_worst_code_is_returned(
    launch: Launch, home: Path
) -> None:
    typed = [*LAUNCH, "--run-dir", str(home / "runs"), "run", "--nodes", "2", "--", "python"]
    with subprocess.Popen([*typed, "-c", SIGNALLED], stdout=-1, text=True) as command:
        assert command.stdout
        assert sorted(command.stdout.readline() for _ in range(2)) == [
            "[master] waits\n",
            "[worker] waits\n",
        ]
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE_S) == 5


def test_output_has_no_control_characters_and_bounded_lines_and_is_logged(launch: Launch) -> None:
    text = r"printf 'red\033[31m\n'; head -c 10000 /dev/zero | tr '\0' x"
    shown = launch("run", "--", "bash", "-c", text).stdout.splitlines()
    assert shown[0] == "red?[31m"
    assert [len(line) for line in shown[1:]] == [4096, 4096, 10000 - 2 * 4096]
    logged = launch("logs", "master").stdout.splitlines()
    assert [line for line in shown if line not in logged] == []
    assert "[api] listening on http://127.0.0.1:8081" in launch("logs").stdout


def test_a_shell_takes_a_command_a_script_or_a_terminal(launch: Launch, home: Path) -> None:
    assert launch("shell", "worker", "-c", "exit 7").returncode == 7
    script = launch("shell", stdin=None, input="hostname; exit 8")
    assert (script.stdout, script.returncode) == ("metta-sweep-master\n", 8)
    terminal, inner = os.openpty()
    typed = [*LAUNCH, "--run-dir", str(home / "runs"), "shell", "worker"]
    with subprocess.Popen(typed, stdin=inner, stdout=inner, stderr=inner) as shell:
        os.close(inner)
        screen = b""
        while b"#" not in screen:
            screen += os.read(terminal, 4096)
        os.write(terminal, b"test -t 1 && exit 9\n")
        assert shell.wait(PATIENCE_S) == 9
    os.close(terminal)


def test_a_supervisor_that_is_killed_leaves_nothing_and_stop_works_twice(
    alone: Launch, tmp_path: Path
) -> None:
    assert alone("start", "--no-credentials").returncode == 0
    assert len(processes_of(tmp_path)) > 3
    beat = json.loads((tmp_path / "runs/nodes/lease/term-000001.json").read_text())
    os.kill(beat["pid"], signal.SIGKILL)
    assert until(lambda: not processes_of(tmp_path))
    assert alone("status").returncode == ExitCode.DOWN
    assert alone("start").returncode == 0
    assert [alone("stop").stdout for _ in range(2)] == ["stopped\n", "the nodes do not run\n"]
    assert processes_of(tmp_path) == []


def test_nodes_end_by_themselves_after_their_lifetime(alone: Launch, tmp_path: Path) -> None:
    alone("start", "--hours", "0.001")
    assert until(lambda: not processes_of(tmp_path))
    assert (tmp_path / "runs/nodes/supervisor.log").read_text() == "the lifetime is over\n"


def test_each_refusal_names_its_remedy(alone: Launch, tmp_path: Path) -> None:
    bare = alone("start", env={"PATH": "/nowhere"})
    assert (bare.returncode, "bubblewrap" in bare.stderr) == (ExitCode.NOT_CONFINED, True)
    whole = alone("start", env={"HOME": str(tmp_path / "runs" / "me")})
    assert (whole.returncode, "--run-dir" in whole.stderr) == (ExitCode.CONFIGURATION, True)
    idle = alone("run", "--", "true")
    assert (idle.returncode, "start" in idle.stderr) == (ExitCode.CONFIGURATION, True)
    wrong = alone("shell", "mastr")
    assert (wrong.returncode, "did you mean master" in wrong.stderr) == (ExitCode.USAGE, True)


def test_compose_has_the_same_names_and_variables() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert list(services) == [node.name for node in NODES]
    for node in RANKS:
        wanted = node_environment(node, "", "", len(RANKS)).items()
        assert services[node.name]["environment"].items() <= wanted
        assert {"RANK", "MASTER_ADDR", "DIST_URL"} <= services[node.name]["environment"].keys()
