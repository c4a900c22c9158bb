"""``setup`` copies the stream's token: once, complete, private, over a real ssh."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.core.run_paths import STREAM_TOKEN
from Daddy.streaming.protocol.handshake import load_tokens
from Daddy.weights.laptop.setup_wizard import fetch_stream_token
from Daddy.weights.laptop.ssh_login import Remote
from tests.components import program
from tests.weights.login import running_sshd


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The home on the login node."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def ssh(tmp_path: Path, there: Path) -> Iterator[Remote]:
    """A login node whose commands run in ``there``."""
    with running_sshd(tmp_path / "login", program("sshd", "openssh-server")) as login:
        authorized = tmp_path / "login" / "authorized_keys"
        run = f'cd {there} && eval "$SSH_ORIGINAL_COMMAND"'.replace('"', '\\"')
        authorized.write_text(f'command="{run}" {authorized.read_text()}')
        made = Remote("cluster", login.user, "x", ssh_config=str(login.config))
        yield made
        made.close()


def test_a_missing_token_is_made_there_and_known_on_both_sides(ssh, there, tmp_path) -> None:
    home = tmp_path / "here"
    assert fetch_stream_token(ssh, home)
    mine, theirs = home / STREAM_TOKEN, there / STREAM_TOKEN
    assert load_tokens([mine]) == load_tokens([theirs])
    assert len(load_tokens([mine])) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in (mine, theirs)} == {0o600}


def test_what_either_side_has_already_stays(ssh, there, tmp_path) -> None:
    home = tmp_path / "here"
    for path, digit in ((home / STREAM_TOKEN, "a"), (there / STREAM_TOKEN, "b")):
        path.parent.mkdir(parents=True)
        path.write_text(digit * 64 + " somebody\n")
        path.chmod(0o600)
    for _ in range(2):
        assert fetch_stream_token(ssh, home)
    assert [load_token.secret.hex()[0] for load_token in load_tokens([home / STREAM_TOKEN])] == [
        "a",
        "b",
    ]
    assert (there / STREAM_TOKEN).read_text() == "b" * 64 + " somebody\n"


def test_a_confined_key_brings_nothing_and_breaks_nothing(ssh, there, tmp_path) -> None:
    authorized = tmp_path / "login" / "authorized_keys"
    key = authorized.read_text().rpartition("command=")[2].split('" ', 1)[1]
    authorized.write_text(f'restrict,command="echo only rsync" {key}')
    assert not fetch_stream_token(ssh, tmp_path / "here")
    assert not (tmp_path / "here").exists()
