"""Pure: one seed for everything random, told apart by who asks."""

from __future__ import annotations

import hashlib


def seed_for(run_seed: int, peer: str, attempt: str = "", env: int = 0) -> int:
    """A 31-bit seed that differs in every argument and is the same on every machine."""
    text = f"{run_seed}|{peer}|{attempt}|{env}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") & 0x7FFF_FFFF
