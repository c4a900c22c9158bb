"""Adapter for the processes of a plain sandbox: starts its runner and outlives it, to end the rest.

``process_keeper.py DONE FOLDER PROGRAM ARGUMENT…`` (standard library only) runs the program with
its own standard input and output. It may be killed: its child, the keeper, goes on. When the
program ends, its parent is killed, or the other end of the input closes because the host closed it
or died, the keeper kills all that the program started and removes FOLDER. Its end closes the
descriptor DONE.

On Linux program and keeper adopt orphans, so that a process cannot leave by losing its parent.
Elsewhere a process that lost its parent is not found.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator

_SET_CHILD_SUBREAPER = 36
_PAUSE_S = 0.002


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs (Linux)."""
    if sys.platform == "linux":
        import ctypes  # slow to load, and only here

        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(ancestor: int, spared: int = 0) -> None:
    """Kill all processes below `ancestor` but `spared`, until there are none.

    Those of other parents are reaped by these.
    """
    while family := [pid for pid in _descendants(ancestor) if pid != spared]:
        for pid in family:
            _kill(pid)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        select.select([], [], [], _PAUSE_S)


def empty_folder(path: str) -> None:
    """Remove all that is in a folder."""
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it, as far as this account may."""
    import shutil  # slow to load, and seldom needed

    shutil.rmtree(path, ignore_errors=True)


def _descendants(ancestor: int) -> list[int]:
    """List the processes below a process, parents first."""
    found = [ancestor]
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110
        for pid in found:
            found += _children(pid)
    else:
        parents = dict(_parents_by_ps())
        for known in found:
            found += [pid for pid, parent in parents.items() if parent == known]
    return found[1:]


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                yield from map(int, file.read().split())


def _parents_by_ps() -> Iterator[tuple[int, int]]:
    readable, writable = os.pipe()
    argv, actions = ["ps", "-A", "-o", "pid=,ppid="], [(os.POSIX_SPAWN_DUP2, writable, 1)]
    pid = os.posix_spawnp("ps", argv, os.environ, file_actions=actions)
    os.close(writable)
    with open(readable, "rb") as file:  # noqa: PTH123
        lines = file.read().splitlines()
    os.waitpid(pid, 0)
    pairs = (tuple(map(int, line.split())) for line in lines)
    yield from ((child, parent) for child, parent in pairs if child != pid)


def _kill(pid: int) -> None:
    """Kill a process and the group that it leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)


def main(done: int, folder: str, argv: list[str]) -> None:
    """Fork the keeper and wait for its end."""
    os.set_inheritable(done, False)
    parent_ended, parent_lives = os.pipe()
    keeper = os.fork()
    if keeper:
        os.close(done)
        os.waitpid(keeper, 0)
    else:
        os.setsid()  # the host kills its parent's group
        os.close(parent_lives)
        _keep(parent_ended, folder, argv)


def _keep(parent_ended: int, folder: str, argv: list[str]) -> None:
    """Run the program to its end, then end the rest."""
    adopt_orphans()
    ended, lives = os.pipe()
    if not os.fork():
        adopt_orphans()
        os.set_inheritable(lives, True)  # closes when the program ends
        os.execv(argv[0], argv)  # noqa: S606
    os.close(lives)
    ends = select.poll()
    for descriptor in (0, parent_ended, ended):
        ends.register(descriptor, 0)  # tells of a closed end only
    ends.poll()
    end_descendants(os.getpid())
    remove_folder(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
