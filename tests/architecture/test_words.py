"""One word per thing: the glossary's, in code and in documents."""

from __future__ import annotations

import re
from pathlib import Path

BANNED = {
    "epoch": "a term fences, a version numbers weights; passes over a rollout are update_epochs",
    "generation": "say version",
    "publication": "say version or contribution",
}
"""Word → what to say instead. Each named two things in the texts this project grew from."""
LEFT_ALONE = {"test_words.py", "LICENSE", "NOTICE"}
KINDS = {".py", ".md", ".sh", ".toml", ".json", ""}


def banned_in(text: str) -> list[str]:
    return [word for word in BANNED if re.search(rf"\b{word}s?\b", text, re.IGNORECASE)]


def test_words_that_meant_two_things_are_not_used(tracked: list[Path], root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {word} ({BANNED[word]})"
        for path in tracked
        if path.suffix in KINDS and path.name not in LEFT_ALONE
        for word in banned_in(path.read_text(errors="replace"))
    ]
    assert found == []


def test_a_banned_word_is_noticed_and_a_setting_is_not() -> None:
    assert banned_in("in this Epoch") == ["epoch"]
    assert banned_in("update_epochs=4") == []
