"""Pure: what a path lies on, from the text of ``/proc/mounts``, and whether a run can live there.

Two places cannot hold a run: one whose rights expire with a ticket (a job or a daemon outlives the
login that got it), and one that only this host sees.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.errors import FileError

_OCTAL = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}
_TICKETED = frozenset({"afs", "openafs", "auristorfs", "kafs", "coda", "ncpfs"})
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_OF_DISKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "jfs"})
_SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named to be refused


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted file system."""

    device: str
    point: str
    kind: str
    options: tuple[str, ...]


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """``/proc/mounts`` as records; lines that are none are passed over."""
    rows = (line.split() for line in text.splitlines())
    return tuple(
        Mount(_plain(row[0]), _plain(row[1]), row[2], tuple(row[3].split(",")))
        for row in rows
        if len(row) >= 4  # noqa: PLR2004 - device, point, kind, options
    )


def _plain(text: str) -> str:
    for code, letter in _OCTAL.items():
        text = text.replace(code, letter)
    return text


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The file system that holds an absolute path: the longest mount point above it, the last one
    mounted there; None where nothing is known.
    """
    above = [one for one in mounts if one.point == "/" or f"{path}/".startswith(f"{one.point}/")]
    return max(reversed(above), key=lambda one: len(one.point), default=None)


def needs_ticket(mount: Mount) -> str:
    """Why rights on it expire; empty when they do not."""
    if mount.kind in _TICKETED:
        return f"{mount.kind} wants a token that expires"
    for option in mount.options:
        if option.startswith("sec=krb5"):
            return f"{mount.kind} is mounted with {option}: rights go with the Kerberos ticket"
    return ""


def only_here(path: str, mount: Mount, *, one_host: bool) -> str:
    """Why other hosts cannot see the path; empty when they may, or there are none."""
    if one_host:
        return ""
    if mount.kind in _IN_MEMORY:
        return f"{mount.point} is this host's memory ({mount.kind})"
    scratch = next((top for top in _SCRATCH if f"{path}/".startswith(f"{top}/")), None)
    if scratch is not None and mount.kind in _OF_DISKS:
        return f"{scratch} is this host's own ({mount.kind})"
    return ""


def may_be_private(path: str, mounts: tuple[Mount, ...]) -> str:
    """A doubt in words: a disk of this host, which others see only if it is the file server."""
    mount = mount_of(path, mounts)
    if mount is None or mount.kind not in _OF_DISKS | _IN_MEMORY:
        return ""
    return f"{path} is on a disk of this host ({mount.kind} at {mount.point}): do all nodes see it?"


def place_findings(
    what: str, path: str, mounts: tuple[Mount, ...], *, one_host: bool
) -> list[FileError]:
    """What is wrong with having ``what`` (such as "the run directory") at ``path``."""
    mount = mount_of(path, mounts)
    if mount is None:
        return []
    found = []
    if why := needs_ticket(mount):
        found.append(
            FileError(
                f"{what} {path} needs a ticket that expires while jobs run: {why}",
                "put it on storage that needs none (sites call it scratch, project or work)",
            )
        )
    if why := only_here(path, mount, one_host=one_host):
        found.append(
            FileError(
                f"{what} {path} cannot be seen from the nodes where jobs run: {why}",
                "put it on storage that all hosts share (your home or the project's scratch)",
            )
        )
    return found
