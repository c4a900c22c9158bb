"""Entry: manages friends' accounts that take part in a run: add, remove, trust, list.

`python -m Daddy.weights.friends add anna /home/anna/runs/slim_run`, typed by the run's owner.
Writes only the run's list ``peers.json`` and the trust; the friend's folder is only read.
"""

import argparse
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, FileError, UsageError, WeightsError
from Daddy.core.friend_accounts import (
    TRUSTS,
    Friend,
    acl_commands,
    add_friend,
    permission_commands,
    read_friends,
    remove_friend,
    set_trust,
    trust_note,
    write_friends,
)
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights.locate_shared_weights import add_config_flags, locate, locate_at
from Daddy.weights.store.weight_store import Store


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="friends", description="Friends with accounts of their own on the same cluster."
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="add | remove | trust | list")
    add = tasks.add_parser("add", help="start merging contributions of a friend's jobs")
    remove = tasks.add_parser("remove", help="stop merging a friend's contributions")
    trust = tasks.add_parser("trust", help="count a friend's jobs as laptops or own jobs")
    listed = tasks.add_parser("list", help="print the run's friends and their problems")
    for task in (add, remove, trust):
        task.add_argument("name", metavar="NAME", help="friend's name, prefix of job names")
    add.add_argument("path", metavar="PATH", type=Path, help="friend's run or shared_weights")
    text = "a friend's jobs count as laptops (capped) or as your own jobs"
    add.add_argument("--trust", choices=TRUSTS, default="laptop", help=f"{text} (default laptop)")
    add.add_argument(
        "--jobs", type=whole_number(1, 64), default=4, help="friend's jobs at most (default 4)"
    )
    trust.add_argument("trust", choices=TRUSTS, help=text)
    for task in (add, remove, trust, listed):
        task.add_argument(
            "--of", type=Path, metavar="WHERE", help="your run's folder (default: the config's)"
        )
        add_config_flags(task)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 no shared weights, 9 files."""
    args = make_parser().parse_args(argv)
    args.where = args.of
    place = locate(args) if args.of is None else locate_at(args.of.expanduser().resolve())
    shared = place.shared
    if args.task == "list":
        _list(shared)
        return ExitCode.DONE
    if isinstance(shared, JoinedPaths):
        raise UsageError(
            f"this account takes part in the run of {shared.theirs.root}",
            "only its owner can change its friends: send the owner this command",
        )
    if args.task == "add":
        _add(shared, args.name, args.path, args.trust, args.jobs)
    elif args.task == "trust":
        set_trust(shared, args.name, args.trust)
        print(f"{args.name}'s jobs count as {args.trust}s from the next version on")
    else:
        write_friends(shared, remove_friend(read_friends(shared), args.name))
        print(f"{args.name} is no friend of the run any more: later contributions do not count")
    return ExitCode.DONE


def _add(shared: SharedPaths, name: str, path: Path, trust: str, jobs: int) -> None:
    folder = shared_folder(path)
    if (box := shared.inbox / name).is_dir():
        raise UsageError(
            f"a laptop of this account is called {name}, and two senders of one name are one",
            f"choose another name; or, if it is the friend's and the run has read it: rmdir {box}",
        )
    new = Friend(name, str(folder), folder.stat().st_uid, trust, jobs)
    write_friends(shared, add_friend(read_friends(shared), new))
    set_trust(shared, name, trust)
    print(f"{name} is a friend now: {folder}, account {_account(new.uid)}, {jobs} {trust}s")
    for trouble in Store(shared).list_problems():
        print(f"  cannot be read yet: {trouble}")
    if lines := permission_commands(shared.root):
        print("  your folder is closed to the friend; type", *lines, sep="\n    ")
        print("  or, for that account alone, where the site has access control lists", end="\n    ")
        print(*acl_commands(lines, _account(new.uid)), sep="\n    ")
    print(f'  the friend sets, and then starts: "collaboration": {{"join": "{shared.root}"}}')


def shared_folder(path: Path) -> Path:
    """Return the shared folder at a friend's path; WeightsError if missing, or FileError."""
    try:
        resolved = path.expanduser().resolve(strict=True)
        run = RunPaths(resolved)
        return run.shared_weights if run.shared_weights.is_dir() else resolved
    except FileNotFoundError as error:
        raise WeightsError(
            f"{path} does not exist", f"the friend types: mkdir -p {path}/shared_weights"
        ) from error
    except OSError as error:
        raise FileError(
            f"{path} cannot be read: {error.strerror}",
            "the friend types chmod go+x for each folder above it, such as: chmod go+x ~",
        ) from error


def _list(shared: SharedPaths) -> None:
    friends = read_friends(shared)
    for friend in friends:
        jobs = f"{friend.jobs} {friend.trust}s"
        print(f"{friend.name}  {friend.folder}  account {_account(friend.uid)}  {jobs}")
    notes = [trust_note(shared, friend.name) for friend in friends]
    for problem in [*Store(shared).list_problems(), *filter(None, notes)]:
        print(f"  {problem}")
    if not friends:
        print(f"no friend takes part in {shared.root}")


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
