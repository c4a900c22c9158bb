"""Adapter for the claims of an archive, which tell the way to each of its states.

They lie beside the states, as ``claims/<claim>-<state>.claim``: the claim's hash, and that of the
state it leads to here. A claim outlives its state, since later ones go on from it; `trim` removes
claims that no living state descends from. A damaged file is ignored.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from Daddy.core.atomic_files import create_exclusive, read_bounded
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import claim_format
from Daddy.pokemon.archive.claim_format import CLAIM_LIMIT, Claim

MAX_CLAIMS = 16_384
"""Claims that are kept: some tens of megabytes. Beyond that, unused ones are removed."""
NO_STATE = "0" * 64
"""Stands for the state of a claim that leads to none here."""
_NAME = re.compile(r"([0-9a-f]{64})-([0-9a-f]{64})\.claim")


class ClaimStore:
    """The claims beside the states in `folder`, for one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "claims"
        self._read: dict[str, Claim] = {}
        self._known: dict[str, str] = {}

    def keep_claim(self, claim: Claim, state: str = NO_STATE) -> str:
        """Keep the claim that leads to a state (its hash); returns the claim's. OSError.

        Without a state: one that others go on from.
        """
        ident = claim_format.claim_hash(claim)
        create_exclusive(
            self.folder / _name(ident, state), claim_format.encode_claim(claim), mode=0o444
        )
        return ident

    def claim_state_pairs(self) -> list[tuple[str, str]]:
        """(claim, state) hashes, as listed now. A state may have several claims, and be gone."""
        listed = self._listed()
        self._known = dict(listed)
        return [(ident, state) for ident, state in listed if state != NO_STATE]

    def find_claim(self, ident: str) -> Claim | None:
        """A claim by its hash; None when it is not here or damaged."""
        if ident not in self._read:
            if ident not in self._known:
                self._known = dict(self._listed())
            state = self._known.get(ident)
            found = self._load(ident, state) if state else None
            if found is None:
                return None
            self._read[ident] = found
        return self._read[ident]

    def _load(self, ident: str, state: str) -> Claim | None:
        with contextlib.suppress(OSError, FileError):
            found = claim_format.decode_claim(
                read_bounded(self.folder / _name(ident, state), CLAIM_LIMIT)
            )
            return found if claim_format.claim_hash(found) == ident else None
        return None

    def _listed(self) -> list[tuple[str, str]]:
        with contextlib.suppress(OSError):
            names = os.listdir(self.folder)  # noqa: PTH208 - names
            return [(found[1], found[2]) for name in names if (found := _NAME.fullmatch(name))]
        return []

    def remove_unused(self, living: Iterable[str]) -> int:
        """Remove claims that no `living` state (hashes) descends from, once there are too many."""
        listed, alive = self._listed(), set(living)
        if len(listed) <= MAX_CLAIMS:
            return 0
        needed = {ident for ident, state in listed if state in alive}
        for ident in list(needed):
            needed |= set(claim_format.claim_lineage(ident, self.find_claim))
        gone = [(ident, state) for ident, state in listed if ident not in needed]
        for ident, state in gone:
            self._read.pop(ident, None)
            with contextlib.suppress(OSError):
                (self.folder / _name(ident, state)).unlink()
        return len(gone)


def _name(ident: str, state: str) -> str:
    return f"{ident}-{state}.claim"
