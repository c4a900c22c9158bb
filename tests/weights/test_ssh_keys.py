"""A key with a changed line is told from one that works; one real sshd for all."""

import contextlib
import re
import socket
import sys
from dataclasses import replace

import pytest

from Daddy.core.errors import UsageError
from Daddy.core.saved_cluster import read_saved_cluster
from Daddy.weights.laptop import key_receiver
from Daddy.weights.laptop.rsync_sftp import RsyncTransport, choose_transport
from Daddy.weights.laptop.setup_wizard import ClusterFindings, make_key_ring
from Daddy.weights.laptop.ssh_keys import _REPLACE, KeyCheck, make_missing_keys
from Daddy.weights.laptop.ssh_login import Remote, explain_error, save_remote
from tests.components import program
from tests.weights.laptop_home import OLD_TUNNEL, a_laptop

REMOTE = Remote("login", "me", "/data/w")


HEAD = '{"size": 4096}'
RECEIVER = f"{sys.executable} -I {key_receiver.__file__}"


@pytest.fixture(scope="module")
def laptop(tmp_path_factory):
    with a_laptop(tmp_path_factory.mktemp("laptop")) as found:
        (found.shared / "wan").mkdir(parents=True)
        (found.shared / "inbox").mkdir()
        (found.shared / "wan" / "HEAD.json").write_text(HEAD)
        (found.there / ".ssh").mkdir()
        yield found


def make_ring(laptop, peer: str = "anna"):
    remote = Remote("cluster", laptop.login.user, str(laptop.shared),
                    ssh_config=str(laptop.login.config))  # fmt: skip
    environ = {"SYNC_USER_ID": peer, "XDG_CONFIG_HOME": str(laptop.home / ".config")}
    return make_key_ring(remote, environ, laptop.home, ClusterFindings(receiver=RECEIVER))


def lines_by_purpose(ring) -> dict[str, str]:
    return {line.rpartition("daddy-")[2].partition("@")[0]: line for line in ring.key_lines()}


@pytest.mark.parametrize(
    ("purpose", "change", "said", "good"),
    [
        ("pull", ("", ""), "reads, cannot write$", True),
        ("pull", ("shared_weights", "none"), "does not exist on", False),
        ("pull", ("receiver.py pull", "receiver.py push"), "is for push anna in", False),
        ("pull", ("receiver.py", "no-receiver.py"), "lacks the program that", False),
        ("pull", ('command="', 'command="exec $SSH_ORIGINAL_COMMAND #'), "commands", False),
        ("pull", ("restrict,", ""), "opens other ports, too", False),
        ("pull", ("ssh-ed25519", "#"), "not installed on ", False),
        ("push", ("", ""), "writes inbox/anna alone", True),
        (
            "push",
            ('weights anna"', 'weights bob"'),
            "is for push bob in .*not for push anna",
            False,
        ),
        ("push", ("run/shared_weights", "other"), "is for push anna in .*/other, not", False),
        ("push", ("run/shared_weights", "none"), "does not exist on", False),
        ("tunnel", ("", ""), r"watches the run alone \(no relay there yet\)", True),
        ("tunnel", ("restrict,", ""), "opens other ports, too", False),
        ("tunnel", ('command="sh', 'command="exec $SSH_ORIGINAL_COMMAND #'), "commands", False),
        ("tunnel", ('command="sh', 'command="exit 1 #'), "no relay answers the key", False),
    ],
)
def test_a_line_and_what_is_said_of_its_key(laptop, purpose, change, said, good):
    (laptop.there / "other").mkdir(exist_ok=True)
    text = lines_by_purpose(make_ring(laptop))[purpose].replace(*change)
    assert change == ("", "") or text != lines_by_purpose(make_ring(laptop))[purpose]
    laptop.authorized.write_text(f"{text}\n")
    found = make_ring(laptop).check_key(purpose)
    assert re.search(said, found.finding), found
    assert found.good == good
    assert bool(found.fix) != good


OLD_PULL_BY_SFTP = 'restrict,command="internal-sftp -R -d {folder}"'
OLD_PULL = 'restrict,command="rrsync -ro {folder}"'
OLD_PUSH = 'restrict,command="cd {folder} && mkdir -p inbox/anna && rrsync -wo inbox/anna"'


@pytest.mark.parametrize(
    ("purpose", "line", "said", "good", "by"),
    [
        ("pull", OLD_PULL_BY_SFTP, "reads the whole account: an older line", True, "sftp"),
        ("pull", OLD_PULL, "reads all of shared_weights: an older line", True, "rsync"),
        ("push", OLD_PUSH, "an older line .rrsync., which cannot tell its box", False, ""),
    ],
)
def test_a_line_of_the_release_before_is_named_as_old(laptop, purpose, line, said, good, by):
    if "rrsync" in line:
        program("rrsync", "rsync")
    ring = make_ring(laptop)
    public = (ring.folder / f"{purpose}.pub").read_text()
    laptop.authorized.write_text(f"{line.format(folder=laptop.shared)} {public}\n")
    found = ring.check_key(purpose)
    assert re.search(said, found.finding), found
    assert (found.good, found.old, found.by) == (good, True, by)


def test_an_older_push_line_goes_on_for_a_laptop_that_had_tried_it(laptop):
    ring = make_ring(laptop)
    old = {"push": KeyCheck(good=False, finding="", fix=_REPLACE)}
    assert ring.facts(old, {"push_key": "/k/push", "peer": "anna"})["push_key"] == "/k/push"
    assert "push_key" not in ring.facts(old, {"push_key": "/k/push", "peer": "bert"})
    new = {"push": KeyCheck(good=True, finding="", by="receiver")}
    assert ring.facts(new, {})["push_by"] == "receiver"


def test_a_pull_needs_no_rsync_and_no_silent_shell_there(laptop):
    line = lines_by_purpose(make_ring(laptop))["pull"]
    laptop.authorized.write_text(line.replace('command="', 'command="echo welcome; PATH= ') + "\n")
    found = make_ring(laptop).check_key("pull")
    assert (found.good, found.by) == (True, "receiver"), found


@pytest.mark.parametrize(
    ("change", "said", "good"),
    [
        (("", ""), "can make socket files anywhere: an older line", True),
        ((',command="cat >/dev/null; false"', ""), "the key runs commands", False),
        (('permitopen="localhost:1",', ""), "opens other ports, too", False),
    ],
)
def test_an_older_line_of_the_tunnel_key_goes_on_and_is_named_even_if_the_port_is_taken(
    laptop, change, said, good
):
    ring = make_ring(laptop)
    public = (ring.folder / "tunnel.pub").read_text()
    laptop.authorized.write_text(f"{OLD_TUNNEL} {public}".replace(*change))
    with socket.socket() as holder:
        with contextlib.suppress(OSError):  # taken by others is taken, too
            holder.bind(("127.0.0.1", 9999))
            holder.listen()
        found = ring.check_key("tunnel")
    assert said in found.finding
    assert found.good == good
    assert found.fix


def test_an_answer_that_asks_for_more_than_a_key_names_the_way_in():
    for method in ("keyboard-interactive", "gssapi-with-mic,password"):
        error = explain_error(f"me@login: Permission denied ({method}).", REMOTE)
        assert "asks for more than a key" in error.message
        assert error.fix.endswith("sync_weights.sh login")
    confined = replace(REMOTE, key="/k", within="")
    assert (
        "refuses the key /k" in explain_error("x: Permission denied (publickey).", confined).message
    )
    said = explain_error('rsync: mkstemp "/.a" failed: Permission denied (13)', REMOTE).message
    assert "may not read or write" in said


def kept(tmp_path, remote: Remote = REMOTE, **found: str) -> dict[str, str]:
    save_remote(tmp_path / "sync.json", remote, found)
    return read_saved_cluster(tmp_path / "sync.json")


def test_a_key_is_used_where_it_was_tried_and_nowhere_else(tmp_path):
    found = kept(tmp_path, pull_key="/k/pull", pull_by="rsync", push_key="/k/push", peer="anna")
    assert choose_transport("pull", REMOTE, found, "").remote == replace(
        REMOTE, key="/k/pull", within=""
    )
    push = choose_transport("push", REMOTE, found, "").remote
    assert (push.key, push.path("inbox/anna")) == ("/k/push", "/")
    for other in (replace(REMOTE, host="other"), replace(REMOTE, folder="/x"),
                  replace(REMOTE, user="you"), replace(REMOTE, key="/mine")):  # fmt: skip
        assert choose_transport("pull", other, found, "").remote == other
        assert choose_transport("push", other, found, "").remote == other
    assert choose_transport("pull", REMOTE, found, "sftp").remote == REMOTE


def test_a_key_that_reads_by_sftp_is_used_without_being_told(tmp_path):
    found = kept(tmp_path, pull_key="/k/pull", pull_by="sftp")
    assert choose_transport("pull", REMOTE, found, "").name == "sftp"
    assert choose_transport("pull", REMOTE, found, "rsync").remote == REMOTE
    assert choose_transport("push", REMOTE, found, "") == RsyncTransport(REMOTE)


def test_a_key_with_the_receiver_needs_no_rsync(tmp_path):
    found = kept(tmp_path, pull_key="/k/pull", pull_by="receiver", pull_peer="anna",
                 push_key="/k/push", push_by="receiver", peer="anna")  # fmt: skip
    for asked in ("", "sftp", "rsync"):
        assert choose_transport("push", REMOTE, found, asked).name == "ssh"
        assert choose_transport("pull", REMOTE, found, asked).remote.peer == "anna"


def test_over_a_connection_that_a_person_opened_no_key_is_used(tmp_path):
    found = kept(tmp_path, pull_key="/k/pull", opened="yes")
    way = choose_transport("pull", REMOTE, found, "").remote
    assert way == replace(REMOTE, opened=True)
    assert "ProxyCommand=false" in way.options()
    assert "BatchMode=yes" in way.options()
    assert "BatchMode=yes" not in way.interactive_options()
    assert choose_transport("pull", REMOTE, found, "sftp").remote == way


@pytest.mark.parametrize(
    ("within", "name", "path"),
    [
        (None, "wan/HEAD.json", "/data/w/wan/HEAD.json"),
        ("", "wan/HEAD.json", "/wan/HEAD.json"),
        ("inbox/anna", "inbox/anna", "/"),
        ("inbox/anna", "inbox/anna/x.st", "/x.st"),
    ],
)
def test_a_confined_key_names_files_from_where_its_world_begins(within, name, path):
    assert replace(REMOTE, within=within).path(name) == path


@pytest.mark.parametrize("name", ["wan", "inbox/annabel", "inbox", "inbox/bert/x.st"])
def test_what_lies_outside_a_confined_keys_world_is_refused_here(name):
    with pytest.raises(UsageError, match="may write inbox/anna alone"):
        replace(REMOTE, within="inbox/anna").path(name)


def test_a_name_that_no_box_can_have_is_refused_with_the_length_allowed(tmp_path):
    environ = {"SYNC_USER_ID": 254 * "a", "XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(UsageError, match="cannot name a peer") as refused:
        make_key_ring(REMOTE, environ, tmp_path, ClusterFindings())
    assert "2 to 31" in refused.value.fix
    assert not (tmp_path / "daddy").exists()


def test_keys_are_made_once_and_never_written_over(tmp_path):
    program("ssh-keygen", "openssh-client")
    folder = tmp_path / "keys"
    assert make_missing_keys(folder, "anna")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "pull.pub").unlink()
    (folder / "push").chmod(0o644)
    assert not make_missing_keys(folder, "anna")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after["pull.pub"].split()[:2] == before.pop("pull.pub").split()[:2]
    assert {name: after[name] for name in before} == before
    assert (folder / "push").stat().st_mode & 0o777 == 0o600
