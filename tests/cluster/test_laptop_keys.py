"""Tests the three keys of ``setup`` with a real sshd and the authorized_keys lines it printed."""

import json
import os
import re
import shutil
import socket
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from Daddy.core.errors import UsageError
from Daddy.core.run_paths import STREAM_TOKEN
from Daddy.streaming.tunnel_server import _tunnel_info
from Daddy.streaming.viewer.connect import find_target
from Daddy.streaming.viewer.connect_plan import StreamRoute, ssh_command
from Daddy.weights.laptop import key_receiver
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.pulled_folder import newest_verified
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.weights.helpers import ManualClock, Peer, begin, make_state, perturbed
from tests.weights.laptop_home import OLD_TUNNEL, Laptop, a_laptop, run

CLOCK = ManualClock()


@pytest.fixture
def laptop(tmp_path):
    with a_laptop(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run setup, the command that it prints, and setup again; the run is at version 0."""
    with a_laptop(tmp_path_factory.mktemp("laptop")) as found:
        found.job = begin(found.shared, "slot-0", CLOCK)
        found.first = found.sync("setup").stdout
        found.append(found.first)
        found.second = found.sync("setup").stdout
        yield found


def contribute(laptop: Laptop, peer: str = "anna") -> None:
    exchange = LaptopExchange(laptop.local, peer, os.urandom(4).hex(), CLOCK)
    weights = exchange.join_fleet(make_state, None).weights
    exchange.publish(perturbed(weights, 7), 500, 20)


def advance(job: Peer, seed: int) -> None:
    job.learn(seed)
    job.publish()
    job.adopt()


def test_setup_says_that_each_key_does_what_it_is_for_and_no_more(installed):
    good = [line[9:] for line in installed.second.splitlines() if line.startswith("ok ")]
    assert "pull key: reads, cannot write" in good
    assert "push key: writes inbox/anna alone" in good
    assert "tunnel key: watches the run alone (no relay there yet)" in good
    assert "authorized_keys" not in installed.second


def test_the_keys_are_private_made_once_and_each_line_names_laptop_and_purpose(installed):
    names = ("pull", "push", "tunnel")
    assert installed.keys.stat().st_mode & 0o777 == 0o700
    assert {(installed.keys / name).stat().st_mode & 0o777 for name in names} == {0o600}
    lines = [line.strip() for line in installed.first.splitlines() if " ssh-ed25519 " in line]
    assert [line.rpartition(" ")[2] for line in lines] == [f"daddy-{name}@anna" for name in names]
    assert all(line.startswith("restrict,") for line in lines)
    assert "forwarding" not in lines[2]
    run_folder = installed.shared.parent
    assert f" daddy '' {run_folder}/stream/attach\"" in lines[2]
    assert installed.authorized.read_text().split() == "\n".join(lines).split()


def test_pull_push_and_receipts_need_no_other_login(installed):
    with installed.own_login_shut_out():
        assert "pulled v0" in installed.sync("pull").stdout
        contribute(installed)
        pushed = installed.sync("push")
        assert pushed.stdout == "pushed 1 contribution(s)\n", pushed.stderr
        advance(installed.job, 3)
        both = installed.sync("bidirectional")
        assert "nothing to push; pulled v1" in both.stdout, both.stderr
        assert newest_verified(installed.local).version == 1
        status = installed.sync("status").stdout
    assert "1 counted, 0 refused" in status
    assert f"this laptop's key {installed.keys / 'pull'}" in status


def test_a_stolen_pull_key_writes_nothing_and_runs_nothing(installed):
    victim = installed.there / "private"
    victim.write_text("secret")
    before = paths_below(installed.there)
    for path in ("/wan/", f"{installed.shared}/wan/", "/../../"):
        assert installed.rsync("pull", str(installed.login.config), f"cluster:{path}").returncode
    for path in (str(victim), "../../private"):
        assert installed.rsync("pull", f"cluster:{path}", f"{installed.home}/").returncode
    runs_nothing(installed, "pull")
    assert paths_below(installed.there) == before
    assert not (installed.home / "private").exists()


def test_a_stolen_push_key_reads_nothing_and_writes_into_its_box_alone(installed):
    source = installed.home / "new.json"
    source.write_text("{}")
    (installed.home / "HEAD.json").unlink(missing_ok=True)
    for path in ("/../bert/", f"{installed.shared}/wan/", "../../wan/"):
        assert installed.rsync("push", str(source), f"cluster:{path}").returncode
    for path in ("/../../wan/HEAD.json", "/new.json"):
        assert installed.rsync("push", f"cluster:{path}", f"{installed.home}/").returncode
    runs_nothing(installed, "push")
    assert not (installed.home / "HEAD.json").exists()
    assert list(installed.there.rglob("new.json")) == []


def test_a_stolen_tunnel_key_listens_nowhere_and_makes_no_file(installed):
    ssh = [*installed.ssh("tunnel"), "-o", "ExitOnForwardFailure=yes"]
    next_version = installed.shared / "merged" / "v00000099.json"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for listen in ("9999", "9998", "0", "*:9999", str(next_version)):
            done = run([*ssh, "-R", f"{listen}:localhost:{port}", "cluster", "true"])
            assert done.returncode == 255, listen
        refused = run([*ssh, "-W", f"localhost:{port}", "cluster"])
        assert "administratively prohibited" in refused.stderr
    assert not next_version.exists()
    runs_nothing(installed, "tunnel")


def paths_below(folder: Path) -> list[Path]:
    """Return all paths but the receiver's notes of refusals."""
    return sorted(path for path in folder.rglob("*") if ".keys" not in path.parts)


def runs_nothing(laptop: Laptop, key: str) -> None:
    mark = laptop.there / "ran"
    command = f"touch {mark}; echo ran"
    for words in (("cluster", command), ("-tt", "cluster", command), ("-s", "cluster", "sftp")):
        done = run([*laptop.ssh(key), *words])
        assert done.returncode
        assert "ran\n" not in done.stdout
    assert not mark.exists()


def test_after_setup_the_waiting_screen_shows_connect(installed):
    waiting = _tunnel_info(9999, "", {}, installed.home)
    assert waiting.line == "python -m Daddy.streaming.tunnel_server connect"
    by_hand = waiting._replace(connects=False)  # shown by connect itself
    assert by_hand.line == f"ssh -R 9999:localhost:9999 {installed.login.user}@cluster"
    assert _tunnel_info(9999, "bert@elsewhere", {}, installed.home).line.startswith("ssh -R 9999:")


def test_ones_own_login_opens_the_port_as_the_guide_has_it(laptop):
    login = f"{laptop.login.user}@cluster"
    with socket.create_server(("127.0.0.1", 0)) as viewer:
        line = _tunnel_info(viewer.getsockname()[1], login, {}, laptop.home).line
        assert line == f"ssh -R 9999:localhost:{viewer.getsockname()[1]} {login}"
        options = f"ssh -F {laptop.login.config} -N -o ExitOnForwardFailure=yes "
        said_hello_through(laptop, viewer, line.replace("ssh ", options, 1))


def test_an_older_line_goes_on_opens_the_tunnel_and_is_named_until_it_is_replaced(installed):
    new = installed.authorized.read_text()
    public = next(line for line in new.splitlines() if "daddy-tunnel@" in line)
    public = public[public.index("ssh-ed25519 ") :]
    installed.authorized.write_text(f"{OLD_TUNNEL} {public}\n")
    said = installed.sync("setup").stdout
    assert "ok       tunnel key: listens on 9999, and can make socket files" in said
    assert "remove its authorized_keys line there and append the new one" in said
    assert "daddy-tunnel@anna" in said
    assert "tunnel key: listens on 9999" in installed.sync("status").stdout
    with socket.create_server(("127.0.0.1", 0)) as viewer, installed.own_login_shut_out():
        waiting = _tunnel_info(viewer.getsockname()[1], "", {}, installed.home)
        assert waiting.line.startswith("ssh -N -i ~/.config/daddy/keys/tunnel ")
        said_hello_through(installed, viewer, waiting.line)
    installed.authorized.write_text(new)
    assert "older line" not in installed.sync("setup").stdout
    assert "tunnel key" not in installed.sync("status").stdout


def said_hello_through(laptop: Laptop, viewer: socket.socket, line: str) -> None:
    """Assert that the ``ssh -R`` of ``line`` brings a relay's bytes to the viewer."""
    if not until(lambda: not taken(9999), 120):  # another test may use it
        pytest.skip("port 9999 is in use on this machine")
    viewer.settimeout(PATIENCE_S)
    child = until_open(laptop, line)
    try:
        with socket.create_connection(("127.0.0.1", 9999), 5) as relay:
            relay.sendall(b"hello")
            heard = (hear(viewer) for _ in range(1000))  # earlier connections were port checks
            assert next(text for text in heard if text) == b"hello"
    finally:
        child.terminate()
        child.wait(PATIENCE_S)


def hear(viewer: socket.socket) -> bytes:
    connection, _ = viewer.accept()
    with connection:
        return connection.recv(5)


def until_open(laptop: Laptop, line: str) -> subprocess.Popen[bytes]:
    """Open the tunnel by the printed line; try again while another test uses the port."""
    said = laptop.home / "said"
    for _ in range(10):
        with said.open("wb") as stderr:
            child = subprocess.Popen(
                ["sh", "-c", f"exec {line}"], env=laptop.environment(), stderr=stderr
            )
        assert until(lambda: taken(9999) or "failed" in said.read_text(), 20), said.read_text()
        if "failed" not in said.read_text():
            return child
        child.terminate()
        child.wait(PATIENCE_S)
    raise AssertionError(said.read_text())


def taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_login_other_than_the_one_that_was_tried_goes_without_the_keys(installed):
    assert not _tunnel_info(9999, "bert@elsewhere", {}, installed.home).connects
    other = str(installed.there / "run" / "other")
    assert "with your own login" in installed.sync("status", SYNC_REMOTE_DIR=other).stdout


def test_another_peers_contribution_is_not_pushed_with_this_laptops_key(installed):
    installed.sync("pull")
    contribute(installed, "bert")
    done = installed.sync("push")
    shutil.rmtree(installed.local / "outbox" / "bert")
    assert done.returncode == UsageError.exit_code
    assert "may write inbox/anna alone, not inbox/bert" in done.stderr
    assert "SYNC_USER_ID=bert" in done.stderr


def test_a_line_that_is_not_as_printed_is_told_and_its_key_not_used(installed):
    text = installed.authorized.read_text()
    installed.authorized.write_text(text.replace("shared_weights", "none", 1))
    said = installed.sync("setup").stdout
    assert "NO       pull key: " in said
    assert "none" not in said
    assert "to append them" in said
    assert "ready: ./Daddy" in said
    assert "with your own login" in installed.sync("status").stdout
    installed.authorized.write_text(text)


def test_until_the_lines_are_installed_all_goes_by_ones_own_login_and_the_name_is_kept(laptop):
    begin(laptop.shared, "slot-0", CLOCK)
    said = laptop.sync("setup", SYNC_USER_ID="annas-mbp")
    assert said.returncode == 0
    assert said.stdout.count("key is not installed on ") == 3
    assert (laptop.home / STREAM_TOKEN).stat().st_mode & 0o777 == 0o600
    assert "pulled v0" in laptop.sync("pull").stdout
    assert "rsync, with your own login" in laptop.sync("status").stdout
    assert json.loads((laptop.keys.parent / "sync.json").read_text())["peer"] == "annas-mbp"
    said = laptop.sync("setup", SYNC_USER_ID="").stdout  # by then the host has another name
    assert "daddy-push@annas-mbp" in said


def test_a_key_of_ones_own_does_everything(laptop):
    begin(laptop.shared, "slot-0", CLOCK)
    key = {"SYNC_SSH_KEY": str(laptop.login.key)}
    said = laptop.sync("setup", **key)
    assert said.returncode == 0, said.stderr
    assert not laptop.keys.exists()
    assert "pulled v0" in laptop.sync("pull", **key).stdout


def test_the_receiver_lies_outside_the_run_and_only_its_owner_reads_it(installed):
    path = installed.there / ".config" / "daddy" / "receiver.py"
    assert path.stat().st_mode & 0o777 == 0o500
    assert path.read_text() == Path(key_receiver.__file__).read_text()
    assert f'-I {path} push {installed.shared} anna"' in installed.authorized.read_text()


def test_a_name_whose_line_is_not_installed_is_not_ok(installed):
    """Everything that bert pushed would be set aside: the line is anna's."""
    saved = installed.keys.parent / "sync.json"
    text = saved.read_text()
    said = installed.sync("setup", SYNC_USER_ID="bert").stdout
    saved.write_text(text)
    assert "NO       push key: its line is for push anna in" in said
    assert "writes inbox/bert alone" not in said
    assert "push_key" not in said
    assert "daddy-push@bert" in said


def test_where_rsync_is_missing_there_the_keys_carry_all_files(laptop):
    job = begin(laptop.shared, "slot-0", CLOCK)
    laptop.append(laptop.sync("setup").stdout)
    lines = laptop.authorized.read_text()
    laptop.authorized.write_text(lines.replace('command="/usr', 'command="PATH=/none /usr'))
    said = laptop.sync("setup").stdout
    assert "ok       pull key: reads, cannot write" in said
    assert "ok       push key: writes inbox/anna alone" in said
    with laptop.own_login_shut_out():
        assert "pulled v0" in laptop.sync("pull").stdout
        contribute(laptop)
        assert "pushed 1" in laptop.sync("push").stdout
        advance(job, 3)
        assert "pulled v1" in laptop.sync("pull").stdout
        status = laptop.sync("status").stdout
    assert "ssh, with this laptop's key" in status
    assert "1 counted" in status


def test_where_python_is_missing_there_only_the_tunnel_gets_a_line(laptop):
    begin(laptop.shared, "slot-0", CLOCK)
    own = laptop.login.folder / "authorized_keys"
    shadow = laptop.login.folder / "sh"
    no_python = 'case "$2" in *platform-python*) echo looked;; *) exec /bin/sh "$@";; esac'
    shadow.write_text(f"#!/bin/sh\n{no_python}\n")
    shadow.chmod(0o700)
    own.write_text(own.read_text().replace("export ", f"export PATH={shadow.parent}:$PATH ", 1))
    said = laptop.sync("setup").stdout
    assert "no Python 3.6 or newer was found there" in said
    assert "daddy-tunnel@anna" in said
    assert "daddy-push@anna" not in said


def test_lines_of_the_release_before_go_on_and_are_named(laptop):
    """The push key was tried by that release's setup; its line cannot tell its box."""
    program("rrsync", "rsync")
    begin(laptop.shared, "slot-0", CLOCK)
    laptop.sync("setup")
    folder, box = laptop.shared, "inbox/anna"
    old = {
        "pull": f'restrict,command="rrsync -ro {folder}"',
        "push": f'restrict,command="cd {folder} && mkdir -p {box} && rrsync -wo {box}"',
    }
    public = {name: (laptop.keys / f"{name}.pub").read_text().strip() for name in old}
    laptop.authorized.parent.mkdir(exist_ok=True)
    laptop.authorized.write_text("".join(f"{old[name]} {public[name]}\n" for name in old))
    saved = laptop.keys.parent / "sync.json"
    facts = {**json.loads(saved.read_text()), "pull_by": "rsync", "peer": "anna",
             **{f"{name}_key": str(laptop.keys / name) for name in old}}  # fmt: skip
    saved.write_text(json.dumps(facts))
    goes_on_both_ways(laptop)
    said = laptop.sync("setup").stdout
    assert "pull key: reads all of shared_weights: an older line (rsync)" in said
    assert "push key: an older line (rrsync), which cannot tell its box" in said
    assert "remove its authorized_keys line there" in said
    goes_on_both_ways(laptop)


def goes_on_both_ways(laptop: Laptop) -> None:
    with laptop.own_login_shut_out():
        pulled = laptop.sync("pull")
        assert "v0" in pulled.stdout, pulled.stderr
        contribute(laptop)
        assert "pushed 1" in laptop.sync("push").stdout


def test_where_a_key_is_not_enough_a_person_opens_one_connection_and_its_end_is_said(laptop):
    """A passphrase simulates the second factor, which only a person can give."""
    begin(laptop.shared, "slot-0", CLOCK)
    run(["ssh-keygen", "-q", "-p", "-N", "open sesame", "-f", str(laptop.login.key)])
    assert laptop.sync("pull").returncode == 8
    answer = laptop.home / "answer"
    answer.write_text("#!/bin/sh\necho open sesame\n")
    answer.chmod(0o700)
    person = {"SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force"}
    opened = laptop.sync("login", **person)
    assert "pulls and pushes go over it" in opened.stdout, opened.stderr
    assert "pulled v0" in laptop.sync("pull").stdout
    assert "over the connection that you opened" in laptop.sync("status").stdout
    answer.unlink()
    assert (
        laptop.sync("login", **person).returncode == 0
    )  # the connection is open: no question again
    args = Namespace(login="", run_dir="", remote_port="9999")
    there = find_target(args, {}, laptop.home, asks=False)
    assert there.login == f"{laptop.login.user}@cluster"
    watching = run(ssh_command(StreamRoute.STDIO, there, 0))  # over the same connection
    assert "no relay of yours has left" in watching.stderr, watching.stderr
    run(["ssh", "-O", "exit", "-S", re.search(r"-S (\S+)", opened.stdout)[1], "x"])
    known = connections(laptop)
    done = laptop.sync("pull")
    assert done.returncode == 8
    assert "that you opened has ended" in done.stderr
    assert "sync_weights.sh login" in done.stderr
    assert connections(laptop) == known  # no new connection
    assert laptop.sync("login", **person).returncode == 8
    assert Path(laptop.home / ".config" / "daddy" / "sync.json").exists()


def connections(laptop: Laptop) -> set[str]:
    """Return the ports of accepted connections; the server logs them with a delay."""
    log = (laptop.login.folder / "sshd.log").read_text()
    return set(re.findall(r" port (\d+)", log))
