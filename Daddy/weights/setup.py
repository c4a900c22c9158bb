"""First contact of a laptop with the cluster: a key, a connection, and what is missing, in words.

Asks only for what is not known and only when somebody is there to answer. Never types a password
and never installs a key by itself: it prints the one line that does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError
from Daddy.weights.remote import CONNECT_S, connect, explain
from Daddy.weights.rsync import INSTALL
from Daddy.weights.stream_token import fetch_stream_token
from Daddy.weights.sync_settings import Remote, find_remote, remember, remembered, settings_path

KEY_S = 30.0


def run_setup(given: str, environ: Mapping[str, str], home: Path) -> int:
    """Go through the steps; returns 0 when a pull would work. DaddyError says what is missing."""
    path = settings_path(environ, home)
    known = {**remembered(path), **_answers(given, environ, remembered(path))}
    remote = find_remote(given, environ, known)
    key = _key(remote, home)
    print(f"cluster  {remote.login}, folder {remote.folder}")
    print(f"key      {key or 'as ' + remote.ssh_config + ' says'}")
    remember(path, remote)
    print(f"kept in  {path}")
    _explain_keys(remote, key)
    rsync = _test(remote, home)
    print(f"\nready: {'' if rsync else 'SYNC_TRANSPORT=sftp '}./Daddy/cluster/sync_weights.sh pull")
    return 0


def _answers(given: str, environ: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Ask for what is neither given, set nor remembered, when somebody is there."""
    if not sys.stdin.isatty():
        return {}
    answers = {}
    host_given = "@" in given
    if not host_given and not environ.get("SYNC_CLUSTER_HOST") and not known.get("host"):
        answers["host"] = _ask("login node (such as shell.engr.wustl.edu)")
    if not given and not environ.get("SYNC_CLUSTER_USER") and not known.get("user"):
        answers["user"] = _ask("your user name there")
    if not environ.get("SYNC_REMOTE_DIR") and not known.get("folder"):
        answers["folder"] = _ask("the run's shared_weights folder there")
    return {name: text for name, text in answers.items() if text}


def _ask(question: str, read: Callable[[str], str] = input) -> str:
    return read(f"{question}: ").strip()


def _key(remote: Remote, home: Path) -> Path | None:
    """The private key that will be used, made if there is none; None when ssh's config decides."""
    if remote.key:
        return _must_exist(Path(remote.key).expanduser())
    if remote.ssh_config:
        return None
    folder = home / ".ssh"
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        if (folder / name).exists():
            return folder / name
    return _make_key(folder / "id_ed25519")


def _must_exist(path: Path) -> Path:
    if not path.exists():
        raise FileError(f"SYNC_SSH_KEY names {path}, which does not exist", f"ssh-keygen -f {path}")
    return path


def _make_key(path: Path) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        done = process.run(argv, KEY_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    if done.returncode:
        raise FileError(f"no key could be made: {done.stderr.strip()}", f"ssh-keygen -f {path}")
    print(f"made     {path}")
    return path


def _explain_keys(remote: Remote, key: Path | None) -> None:
    if key is None:
        return
    port = f"-p {remote.port} " if remote.port else ""
    public = key.with_name(key.name + ".pub")
    print("\nif the key is not installed there yet (asks for your password once):")
    print(f"  ssh-copy-id {port}-i {public} {remote.login}")
    if public.exists():
        print("a friend's key that may only pull (a line in ~/.ssh/authorized_keys there):")
        print(f'  restrict,command="rrsync -ro {remote.folder}" {public.read_text().strip()}')
        print("without -ro it may contribute, and write over everything in that folder")


def _test(remote: Remote, home: Path) -> bool:
    """Log in; whether rsync is on both sides. Tells what is missing, brings the stream's token."""
    ssh = connect(remote)
    ssh.drop_dead_master()
    try:
        done = ssh.run(["sh", "-c", _PROBE, "probe", remote.folder], 3.0 * CONNECT_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    if done.returncode == 255:  # noqa: PLR2004 - ssh's own failure
        raise explain(done.stderr, remote)
    words = done.stdout.split()
    here, there = _here("rsync"), "rsync" in words
    _tell(here, "rsync is installed here", INSTALL)
    _tell(there, f"rsync is installed on {remote.login}", "ask for it there")
    _tell("folder" in words, f"{remote.folder} exists there",
          "it appears when the first learner starts; is the path right?")  # fmt: skip
    _tell(fetch_stream_token(ssh, home), "the viewer knows the cluster's token",
          "a confined key cannot fetch it: ask the run's owner for a line")  # fmt: skip
    return here and there


_PROBE = 'command -v rsync >/dev/null && echo rsync; cd "$1" 2>/dev/null && echo folder; true'


def _here(program: str) -> bool:
    try:
        process.run([program, "--version"], KEY_S)
    except DaddyError:
        return False
    return True


def _tell(good: bool, what: str, fix: str) -> None:
    print(f"{'ok ' if good else 'NO '}      {what}" + ("" if good else f"\n           {fix}"))
