"""First contact of a laptop with the cluster: keys, a connection, and what is missing, in words.

Asks only for what is not known and only when somebody is there to answer. Never types a password
and never installs a key by itself: it prints the lines and the one command that does. Said again,
it tries each of the laptop's keys; what was found good is used from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.core.errors import DaddyError, FileError
from Daddy.core.remembered import remembered, settings_path
from Daddy.weights.link.first_look import Seen, here, look
from Daddy.weights.link.keys import make_key
from Daddy.weights.link.laptop_keys import KeyRing, find_ring
from Daddy.weights.link.rsync import INSTALL
from Daddy.weights.link.sync_settings import Remote, find_remote, remember
from Daddy.weights.link.ways import found_out, way_to_pull


def run_setup(given: str, environ: Mapping[str, str], home: Path) -> int:
    """Go through the steps; returns 0 when a pull would work. DaddyError says what is missing."""
    path = settings_path(environ, home)
    before = remembered(path)
    remote = find_remote(given, environ, {**before, **_answers(given, environ, before)})
    key = _key(remote, home)
    print(f"cluster  {remote.login}, folder {remote.folder}")
    print(f"key      {key or 'as ' + remote.ssh_config + ' says'}")
    remember(path, remote, found_out(remote, before))
    print(f"kept in  {path}")
    _explain_key(remote, key)
    seen = look(remote, home)
    _tell_seen(seen, remote)
    ring = None if remote.key else _ring(remote, environ, home, seen)
    if remote.key:
        print(f"one key does everything; for a confined one each: remove {path}, say setup again")
    if ring is not None:
        _use(ring, seen, path, remote)
    return _end(seen, remote, path, environ)


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
    """The key of the person's own login, made if there is none; None when ssh's config decides."""
    if remote.key:
        return _must_exist(Path(remote.key).expanduser())
    if remote.ssh_config:
        return None
    folder = home / ".ssh"
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        if (folder / name).exists():
            return folder / name
    make_key(folder / "id_ed25519")
    print(f"made     {folder / 'id_ed25519'}")
    return folder / "id_ed25519"


def _must_exist(path: Path) -> Path:
    if not path.exists():
        raise FileError(f"SYNC_SSH_KEY names {path}, which does not exist", f"ssh-keygen -f {path}")
    return path


def _explain_key(remote: Remote, key: Path | None) -> None:
    if key is None:
        return
    port = f"-p {remote.port} " if remote.port else ""
    public = key.with_name(key.name + ".pub")
    print("\nif the key is not installed there yet (asks for your password once):")
    print(f"  ssh-copy-id {port}-i {public} {remote.login}")


def _tell_seen(seen: Seen, remote: Remote) -> None:
    print()
    tell(here("rsync"), "rsync is installed here", INSTALL)
    if seen.error is not None:
        tell(False, f"your own login: {seen.error.message}", seen.error.fix)
        if seen.refused:
            tell(
                False, "the stream's token was not fetched", "it takes a login, or the run's owner"
            )
        return
    tell(seen.rsync, f"rsync is installed on {remote.login}", "ask for it there")
    tell(seen.folder, f"{remote.folder} exists there",
         "it appears when the first learner starts; is the path right?")  # fmt: skip
    tell(seen.token, "the viewer knows the cluster's token",
         "a confined key cannot fetch it: ask the run's owner for a line")  # fmt: skip


def _ring(remote: Remote, environ: Mapping[str, str], home: Path, seen: Seen) -> KeyRing | None:
    """The laptop's own keys; None where none can be made."""
    try:
        return find_ring(remote, environ, home, seen)
    except DaddyError as error:
        tell(False, f"this laptop's own keys: {error.message}", error.fix)
        return None


def _use(ring: KeyRing, seen: Seen, path: Path, remote: Remote) -> None:
    """Try the keys, print the lines of those that are not good, remember those that are."""
    if seen.error is None or seen.refused:
        good = {}
        for purpose in ring.purposes:
            verdict = ring.try_one(purpose)
            tell(verdict.good, verdict.what, verdict.fix)
            good[purpose] = verdict.good
        found = ring.found(good, found_out(remote, remembered(path)), seen)
        remember(path, remote, found)
        if all(good.values()):
            return
    elif found_out(remote, remembered(path)).get("pull_key"):
        return
    print("\n" + "\n".join(ring.how_to_install()))


def _end(seen: Seen, remote: Remote, path: Path, environ: Mapping[str, str]) -> int:
    way = way_to_pull(remote, remembered(path), environ.get("SYNC_TRANSPORT", ""))
    confined = way.remote.within is not None
    if seen.error is not None and not confined:
        raise seen.error
    lacks = way.transport == "rsync" and not confined and not (here("rsync") and seen.rsync)
    print(f"\nready: {'SYNC_TRANSPORT=sftp ' * lacks}./Daddy/cluster/sync_weights.sh pull")
    return 0


def tell(good: bool, what: str, fix: str) -> None:
    """One finding, with the way out of a bad one."""
    print(f"{'ok ' if good else 'NO '}      {what}" + ("" if good else f"\n           {fix}"))
