"""Adapter for a laptop's pulled folder: the newest verified version, and receipts. No torch.

A version is complete when its head names it and its file has the promised size and hash. The file
is read once: the bytes that were hashed are the bytes that are used.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core.atomic_files import read_bounded, sha256_hex
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.name_validation import PEER, check_peer
from Daddy.weights.laptop_attachments import read_answers
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import LaptopHead, Receipt, parse

_PULL_AGAIN = "run sync_weights.sh pull again: it fetches only what verifies"
PREVIOUS = "HEAD.previous.json"
"""The head before the newest, for a newest file that turns out to be damaged."""


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """A version whose bytes have been verified, and the head that names it."""

    version: int
    sha256: str
    data: bytes
    head: LaptopHead
    warning: str = ""

    @property
    def label(self) -> str:
        """Version and run, for people."""
        return f"v{self.version} of run {self.head.run!r}"


def newest_verified(pulled_dir: Path) -> VerifiedVersion | None:
    """Return the newest version in ``pulled_dir``, or None if nothing was pulled yet. If its file
    is missing or damaged, return the previous version with a ``warning``. Raise WeightsError if
    that one cannot be used either.
    """
    head = read_laptop_head(pulled_dir / "wan" / "HEAD.json")
    if head is None:
        return None
    try:
        return read_verified(pulled_dir, head)
    except WeightsError as damage:
        older = read_laptop_head(pulled_dir / "wan" / PREVIOUS)
        if older is None or older.name == head.name:
            raise
        warning = f"{damage.message}; using v{older.version} instead"
        return replace(read_verified(pulled_dir, older), warning=warning)


def read_laptop_head(path: Path) -> LaptopHead | None:
    """Read a head, None when there is none. Raise WeightsError when it is damaged."""
    try:
        return parse(LaptopHead, read_bounded(path, LIMIT), str(path))
    except FileNotFoundError:
        return None
    except FileError as error:
        raise WeightsError(error.message, error.fix) from error


def read_verified(pulled_dir: Path, head: LaptopHead, path: Path | None = None) -> VerifiedVersion:
    """Return the verified bytes that ``head`` names, read from ``path`` if given. Raise
    WeightsError when they are missing, truncated or damaged.
    """
    path = path or pulled_dir / "wan" / head.name
    data = read_exactly(path, head.size)
    if sha256_hex(data) != head.sha256:
        raise WeightsError(f"{path} does not have the hash its head promises", _PULL_AGAIN)
    return VerifiedVersion(head.version, head.sha256, data, head)


def read_exactly(path: Path, size: int) -> bytes:
    """Return the bytes of a file of exactly ``size`` bytes. Raise WeightsError."""
    try:
        data = read_bounded(path, size)
    except FileNotFoundError as error:
        raise WeightsError(f"{path} is missing", _PULL_AGAIN) from error
    except FileError as error:
        raise WeightsError(error.message, _PULL_AGAIN) from error
    if len(data) != size:
        raise WeightsError(f"{path} has {len(data)} of {size} bytes", _PULL_AGAIN)
    return data


def read_all_receipts(pulled_dir: Path) -> list[Receipt]:
    """Return the readable receipts of every peer here, oldest version first."""
    peers = peers_in(pulled_dir / "receipts")
    receipts = [receipt for peer in peers for receipt in read_receipts(pulled_dir, peer)]
    return sorted(receipts, key=lambda receipt: receipt.version)


def peers_in(folder: Path) -> list[str]:
    """Return names in ``folder`` that can be peers'."""
    return sorted(path.name for path in folder.glob("*") if PEER.fullmatch(path.name))


def read_receipts(pulled_dir: Path, peer: str) -> list[Receipt]:
    """Return every readable receipt of ``peer`` that was pulled, oldest version first."""
    receipts = read_answers(Receipt, pulled_dir / "receipts" / check_peer(peer), "*.json")
    return sorted(receipts, key=lambda receipt: (receipt.version, receipt.sequence))
