"""Adapter for the claims of an archive: the inputs that lead to each of its states.

A file is named ``claims/<claim>-<state>.claim``: the claim's hash, and the hash of the state that
it leads to in this archive. A claim stays when its state is removed, because later claims continue
from the claim; `remove_unused` removes claims without a state among their descendants.
"""

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
"""Files, some tens of megabytes, beyond which `remove_unused` removes claims."""
NO_STATE = "0" * 64
"""The state's hash in the name of a claim that leads to no state of this archive."""
_NAME = re.compile(r"([0-9a-f]{64})-([0-9a-f]{64})\.claim")


class ClaimStore:
    """Reads and writes the claims beside the states in `folder`; for one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "claims"
        self._read: dict[str, Claim] = {}
        self._known: dict[str, str] = {}

    def keep_claim(self, claim: Claim, state: str = NO_STATE) -> str:
        """Write the claim that leads to `state` (a hash), and return the claim's hash. OSError.

        A claim without a state serves as parent of others.
        """
        ident = claim_format.claim_hash(claim)
        create_exclusive(
            self.folder / _name(ident, state), claim_format.encode_claim(claim), mode=0o444
        )
        return ident

    def claim_state_pairs(self) -> list[tuple[str, str]]:
        """List pairs of claim hash and state hash; the state may be removed from the archive."""
        listed = self._listed()
        self._known = dict(listed)
        return [(ident, state) for ident, state in listed if state != NO_STATE]

    def find_claim(self, ident: str) -> Claim | None:
        """Read a claim by its hash; None when it is missing or damaged."""
        if ident not in self._read:
            if ident not in self._known:
                self._known = dict(self._listed())
            state = self._known.get(ident)
            claim = self._load(ident, state) if state else None
            if claim is None:
                return None
            self._read[ident] = claim
        return self._read[ident]

    def _load(self, ident: str, state: str) -> Claim | None:
        with contextlib.suppress(OSError, FileError):
            claim = claim_format.decode_claim(
                read_bounded(self.folder / _name(ident, state), CLAIM_LIMIT)
            )
            return claim if claim_format.claim_hash(claim) == ident else None
        return None

    def _listed(self) -> list[tuple[str, str]]:
        with contextlib.suppress(OSError):
            names = os.listdir(self.folder)  # noqa: PTH208 - names
            return [(match[1], match[2]) for name in names if (match := _NAME.fullmatch(name))]
        return []

    def remove_unused(self, live_states: Iterable[str]) -> int:
        """If over MAX_CLAIMS, remove claims that lead to none of `live_states`; return how many."""
        listed, live = self._listed(), set(live_states)
        if len(listed) <= MAX_CLAIMS:
            return 0
        needed = {ident for ident, state in listed if state in live}
        for ident in list(needed):
            needed |= set(claim_format.claim_lineage(ident, self.find_claim))
        unused = [(ident, state) for ident, state in listed if ident not in needed]
        for ident, state in unused:
            self._read.pop(ident, None)
            with contextlib.suppress(OSError):
                (self.folder / _name(ident, state)).unlink()
        return len(unused)


def _name(ident: str, state: str) -> str:
    return f"{ident}-{state}.claim"
