"""What a process of the bench `sharing` does first; light, so that it is loaded before the rest."""

from __future__ import annotations

from Daddy.core.machine import die_with_parent
from Daddy.learning.prepare import prepare


def begin() -> None:
    """Say nothing of libraries' business, and never outlive the bench, however that ends."""
    die_with_parent()
    prepare()
