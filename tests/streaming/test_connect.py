"""``connect`` against a real sshd: its routes, its messages, and how it connects again."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from Daddy.core.attach_command import ATTACH, HOME_ATTACH
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import read_events
from Daddy.core.run_subprocess import ConnectedChild, spawn_connected
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.login.stream_folder import WatchRequests, read_watch_request
from Daddy.streaming.protocol.handshake import Token, ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.relay import make_relay, write_scripts
from Daddy.streaming.viewer import connect
from Daddy.streaming.viewer.connect import SshConnector
from Daddy.streaming.viewer.connect_plan import LoginTarget, StreamRoute, first_plan
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.weights.laptop.setup_wizard import KeyRing
from Daddy.weights.laptop.ssh_keys import key_line
from Daddy.weights.laptop.ssh_login import Remote
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import finish, free_port, start
from tests.streaming.test_ssh_tunnel import playing
from tests.weights.laptop_home import OLD_TUNNEL
from tests.weights.login import Login, running_sshd


@dataclass
class LoginNode:
    """An account with a home and a run on a real sshd."""

    login: Login
    home: Path
    run: Path

    def target(self, **changes: object) -> LoginTarget:
        facts = {
            "login": "cluster",
            "scripts": (HOME_ATTACH,),
            "ssh_options": ("-F", str(self.login.config)),
        }
        return LoginTarget(**{**facts, **changes})  # type: ignore[arg-type]

    def begin_run(self, relay_host: str = "") -> None:
        """Write the files that the controller's relay leaves when it starts."""
        write_scripts(self.run, self.home, os.environ)
        if relay_host:
            for path in (self.home / HOME_ATTACH, self.run / "stream" / ATTACH):
                text = path.read_text().splitlines()
                path.write_text("\n".join([text[0], f"# relay: {relay_host}", *text[2:], ""]))

    def connect(self, laptop: Path, *flags: object, **env: str) -> tuple[int, str]:
        """Run the whole command; return its exit status and its output."""
        child = self.start(laptop, *flags, **env)
        output = child.communicate(timeout=PATIENCE_S)[0]
        return child.returncode, output

    def start(self, laptop: Path, *flags: object, **env: str):
        config = {"SYNC_SSH_CONFIG": str(self.login.config), **env}
        return start("Daddy.streaming.tunnel_server", "connect", "cluster", "--headless", *flags,
                     home=laptop, **config)  # fmt: skip


@contextmanager
def login_node(folder: Path, settings: str = "") -> Iterator[LoginNode]:
    program("ssh", "openssh-client")
    sshd = program("sshd", "openssh-server")
    with running_sshd(folder / "login", sshd, settings) as login:
        node = LoginNode(login, folder / "login" / "home", folder / "slim_run")
        node.home.mkdir()
        (node.run / "stream").mkdir(parents=True)
        key = login.folder / "authorized_keys"
        at_home = f'cd {node.home} && export HOME={node.home} && eval \\"$SSH_ORIGINAL_COMMAND\\"'
        key.write_text(f'command="{at_home}" {key.read_text()}')
        yield node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LoginNode]:
    with login_node(tmp_path) as made:
        yield made


@pytest.fixture
def no_forwarding(tmp_path: Path) -> Iterator[LoginNode]:
    with login_node(tmp_path, "AllowTcpForwarding no") as made:
        yield made


class SleepyClock(SystemClock):
    """A clock whose wall time can jump, as after a laptop was closed."""

    slept = 0.0

    def now(self) -> float:
        return super().now() + self.slept


@dataclass
class Viewer:
    """A viewer without a window, and the connector that brings it relays."""

    receiver: Receiver
    carrier: SshConnector
    clock: SleepyClock
    hopeless: threading.Event = field(default_factory=threading.Event)

    def frames(self) -> int:
        return sum(self.receiver.current_scene(2).frames.values())

    def plays(self) -> bool:
        before = self.frames()
        return until(lambda: self.frames() > before + 10, 30)

    def notes(self) -> str:
        return "\n".join(self.receiver.current_scene(2).notes)


@contextmanager
def viewer(
    target: LoginTarget, only: StreamRoute | None = None, token: Path | None = None, top_k: int = 2
):
    clock, once, hopeless = SleepyClock(), list[Token](), threading.Event()
    tokens: Callable[[], tuple[Token, ...]] = lambda: (  # noqa: E731
        *once,
        *load_tokens([token] if token else []),
    )
    receiver = Receiver(0, tokens, Subscription(top_k, 60), clock)
    carrier = SshConnector(first_plan(target, only), receiver, once, clock, hopeless)
    try:
        yield Viewer(receiver, carrier, clock, hopeless)
    finally:
        receiver.close()
        carrier.close()


@contextmanager
def relay(run: Path, port: int, token: Path) -> Iterator[None]:
    """Run the controller's relay."""
    stop = threading.Event()
    served = make_relay(run, port, [token], Subscription(2, 15.0), "ssh-R", SystemClock())
    thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


def our_ssh(pid: int) -> psutil.Process | None:
    """Return the ssh that a viewer has started."""
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):
            if "ServerAliveInterval=5" in child.cmdline():
                return child
    return None


def test_where_forwarding_is_forbidden_the_stream_travels_through_sshs_own_pipes_and_comes_back(
    no_forwarding: LoginNode, tmp_path: Path
) -> None:
    node = no_forwarding
    node.begin_run()
    events = tmp_path / "events"

    def counted() -> int:
        records = read_events(events, "viewer-*.jsonl") if events.exists() else ()
        return sum(sum(event["data"]["frames"].values()) for event in records)

    with playing(node.run / "stream"):
        child = node.start(tmp_path, "--record-events", events)
        try:
            assert until(lambda: counted() > 20, 30)
            first = our_ssh(child.pid)
            assert first is not None
            first.kill()
            assert until(lambda: (now := our_ssh(child.pid)) and now.pid != first.pid, 20)
            before = counted()
            assert until(lambda: counted() > before + 20, 30)
        finally:
            child.send_signal(signal.SIGINT)
            output = finish(child)
    assert child.returncode == 0
    assert output.count("connect: connected by stdio (ssh's own pipes)") == 2
    assert "the best" not in output
    last = list(read_events(events))[-1]["data"]
    assert last["transport"] == "stdio"
    assert until(lambda: read_watch_request(node.run / "stream", 1).holder == "", 10), (
        "a place is free"
    )
    assert not (tmp_path / ".config" / "daddy" / "keys").exists(), "nothing had to be set up"


def test_without_a_script_there_it_goes_by_the_port_and_says_why(
    node: LoginNode, tmp_path: Path, capsys
) -> None:
    token, port = tmp_path / "token", free_port()
    ensure_token(token, "test")
    with (
        playing(node.run / "stream"),
        relay(node.run, port, token),
        viewer(node.target(port=port), token=token) as watching,
    ):
        assert until(lambda: watching.frames() > 10, 30)
        assert watching.receiver.current_scene(2).transport == "ssh-R"
        assert f"connected by ssh -R {port}" in watching.notes()
        assert "not by stdio (ssh's own pipes): no relay of yours has left" in watching.notes()
    assert HOME_ATTACH in capsys.readouterr().err


def one_key(node: LoginNode, options: str) -> tuple[str, tuple[str, str]]:
    """Leave one key on the cluster, with these options in its line; return it, and ssh options
    that name no other key.
    """
    folder = node.login.folder
    key, config = folder / "tunnel", folder / "bare_config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text()
    (folder / "authorized_keys").write_text(f"{options} {public}")
    own = node.login.config.read_text().replace(f"IdentityFile {node.login.key}\n", "\n")
    config.write_text(own)
    return str(key), ("-F", str(config))


@pytest.mark.parametrize("friend", [False, True], ids=["own run", "friend of the run's owner"])
def test_the_laptops_key_runs_the_relay_of_the_accounts_run_and_nothing_else(
    node: LoginNode, friend: bool
) -> None:
    """The authorized_keys line is the one that ``setup`` prints."""
    node.begin_run()
    own = str(node.run / "shared_weights")
    pulled = str(node.home / "owner" / "shared_weights") if friend else own
    ring = KeyRing(node.home, Remote("cluster", "", pulled), "anna", "", node.home, own * friend)
    line = key_line("tunnel", "kind blob", ring.remote_for("tunnel"), "")
    (node.run / "shared_weights").mkdir()
    key, options = one_key(node, line.partition(" kind ")[0])
    target = node.target(ssh_options=options, watch_key=key, scripts=("nowhere/attach",))
    with playing(node.run / "stream"), viewer(target) as watching:
        assert until(lambda: watching.frames() > 10, 30)
        assert watching.receiver.current_scene(2).transport == "stdio"
        assert "with this laptop's key" in watching.notes()


def test_an_older_line_of_the_laptops_key_opens_the_port_if_ones_own_login_takes_more(
    node: LoginNode, tmp_path: Path
) -> None:
    token, port = tmp_path / "token", free_port()
    ensure_token(token, "test")
    key, options = one_key(node, OLD_TUNNEL.replace(f":{TUNNEL_PORT}", f":{port}"))
    target = node.target(ssh_options=options, port=port, tunnel_key=key)
    with (
        playing(node.run / "stream"),
        relay(node.run, port, token),
        viewer(target, token=token) as watching,
    ):
        assert until(lambda: watching.frames() > 10, 30)
        assert "your own login there takes more than a key" in watching.notes()


def test_a_port_that_ssh_chooses_is_told_to_the_relay(node: LoginNode) -> None:
    node.begin_run()
    with playing(node.run / "stream"), viewer(node.target(), StreamRoute.DYNAMIC) as watching:
        assert until(lambda: watching.frames() > 10, 30)
        assert watching.receiver.current_scene(2).transport == "ssh-R"


@contextmanager
def taken_port() -> Iterator[int]:
    """Occupy a port on both loopback addresses, as another person's ``ssh -R`` would."""
    while True:
        first = socket.create_server(("127.0.0.1", 0))
        port = first.getsockname()[1]
        try:
            second = socket.create_server(("::1", port), family=socket.AF_INET6)
        except OSError:  # the IPv6 port belongs to another program
            first.close()
            continue
        with first, second:
            yield port
        return


def test_a_port_that_is_taken_and_a_missing_script_are_told_with_all_reasons_and_exit_8(
    node: LoginNode, tmp_path: Path
) -> None:
    with taken_port() as port:
        code, output = node.connect(tmp_path, "--remote-port", port)
    assert code == 8
    assert "error: no route leads to a relay at cluster" in output
    assert f"not by ssh -R {port}: port {port} is taken there, or forwarding" in output
    assert output.count("no relay of yours has left") >= 2, "stdio and the chosen port"
    assert "run_controller status" in output
    assert "Traceback" not in output


def test_a_site_without_forwarding_is_told_from_a_port_that_is_taken(
    no_forwarding: LoginNode, tmp_path: Path
) -> None:
    code, output = no_forwarding.connect(tmp_path, "--by", "dynamic")
    assert code == 8
    assert "forwarding is disabled there (AllowTcpForwarding)" in output


def test_a_tunnel_to_another_login_node_than_the_relays_says_the_line_that_does_better(
    node: LoginNode, tmp_path: Path
) -> None:
    node.begin_run(relay_host="login2")
    code, output = node.connect(tmp_path, "--by", "port", "--remote-port", free_port())
    assert code == 8
    assert "the run's relay is on login2; " in output
    assert "python -m Daddy.streaming.tunnel_server connect login2" in output


def test_an_ssh_that_took_the_last_descriptor_ends_with_its_call(monkeypatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    begun: list[ConnectedChild] = []

    def begin(_: object, connection: int) -> ConnectedChild:
        begun.append(spawn_connected(["sleep", "60"], connection))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        return begun[-1]

    monkeypatch.setattr(connect, "spawn_connected", begin)
    try:
        with viewer(LoginTarget("cluster", (HOME_ATTACH,), ())):
            assert until(lambda: begun, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ended = begun[0].wait(0)
    begun[0].terminate(1.0)
    assert ended


def test_after_a_sleep_the_call_is_made_anew_at_once(node: LoginNode) -> None:
    node.begin_run()
    with playing(node.run / "stream"), viewer(node.target()) as watching:
        assert watching.plays()
        first = our_ssh(os.getpid())
        assert first is not None
        watching.clock.slept = 8 * 3600.0
        assert until(lambda: (now := our_ssh(os.getpid())) and now.pid != first.pid, 20)
        assert watching.plays()


def test_two_viewers_have_a_relay_each_and_the_jobs_are_asked_for_what_any_wants(
    node: LoginNode,
) -> None:
    node.begin_run()
    stream = node.run / "stream"
    with (
        playing(stream),
        viewer(node.target(), top_k=1) as first,
        viewer(node.target(scripts=(f"{stream}/{ATTACH}",)), top_k=2) as two,
    ):
        assert first.plays()
        assert two.plays()
        assert until(
            lambda: len([p for p in two.receiver.current_scene(8).panels if p.pixels]) == 2, 20
        )
        assert len(first.receiver.current_scene(8).panels) == 1
        assert len({(read_watch_request(stream, n) or 0).holder for n in (1, 2)} - {""}) == 2
        everything = WatchRequests(stream).read_union(0.0).wanted["slot-0"]
        first.carrier.close()
        assert two.plays(), "the other does not notice"
    assert everything == {0, 1}


def test_nothing_of_ours_is_left_at_the_login_node_once_the_viewer_was_killed(
    node: LoginNode, tmp_path: Path
) -> None:
    node.begin_run()
    with playing(node.run / "stream"):
        child = node.start(tmp_path)
        assert until(lambda: (read_watch_request(node.run / "stream", 1) or _NOBODY).holder, 40)
        child.kill()
        child.communicate(timeout=PATIENCE_S)
        assert until(lambda: not (read_watch_request(node.run / "stream", 1)).holder, 20)


class _NOBODY:
    holder = ""


def test_a_host_whose_key_is_not_known_is_left_to_a_person(node: LoginNode, tmp_path: Path) -> None:
    (node.login.folder / "known_hosts").write_text("")
    code, output = node.connect(tmp_path)
    assert code == 8
    assert "the host key of cluster is not known here yet" in output
    assert f"run once: ssh -F {node.login.config} cluster" in output


def test_a_refused_login_is_not_tried_again(node: LoginNode, tmp_path: Path) -> None:
    (node.login.folder / "authorized_keys").write_text("")
    code, output = node.connect(tmp_path)
    assert code == 8
    assert "cluster refuses this login" in output
    assert f"ssh-copy-id -F {node.login.config} cluster" in output
