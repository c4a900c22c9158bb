"""Tracked files hold nothing of the real game, no path of one machine, and nothing large."""

import hashlib
import re
from pathlib import Path

import pytest

KNOWN_GAMES = {
    "ea9bcae617fdf159b045185467ae58b2e4a48b9a": "Pokemon Red",
    "d7037c83e1ae5b39bde3c30787637ba1d4c48ce2": "Pokemon Blue",
    "cc7d03262ebfaf2f06772c1a480c7d9d5f4a38e1": "Pokemon Yellow",
}
TITLE = slice(0x134, 0x144)
TITLE_WORDS = (b"POKEMON", b"POCKET MON")
PLAYER_FILES = {".state", ".sav", ".srm", ".ram", ".rtc", ".gbc", ".sgm", ".ss0", ".ss1"}
LARGEST_BYTES = 1_500_000
MACHINE_PATHS = re.compile(r"(?<![\w.~}])/(?:root|farm|work|Users|home)/\w[\w.-]*")
OUTSIDE = re.compile(r"\.\./" + "shared" + r"\b|(?:extra-)?index-url\s*[= ]\s*(?P<url>\S+)")
PUBLIC_INDEXES = ("https://pypi.org/", "https://download.pytorch.org/")
MADE_UP_PEOPLE = re.compile(r"/(?:home|Users)/(?:USER|NAME|you|user|name|anna|student|friend)\b")


def game_in(data: bytes) -> str | None:
    """Return the reason for which these bytes are a commercial game, or None."""
    known = KNOWN_GAMES.get(hashlib.sha1(data, usedforsecurity=False).hexdigest())
    if known:
        return f"is {known}"
    title = data[TITLE]
    return next((f"calls itself {title!r}" for word in TITLE_WORDS if word in title), None)


def private_mentions(text: str) -> list[str]:
    paths = [m.group() for m in MACHINE_PATHS.finditer(text) if not MADE_UP_PEOPLE.match(m.group())]
    outside = [
        m.group()
        for m in OUTSIDE.finditer(text)
        if not (m.group("url") or "").strip("\"'").startswith(PUBLIC_INDEXES)
    ]
    return paths + outside


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode(errors="replace")


def test_no_tracked_file_is_the_real_game(tracked: list[Path]) -> None:
    found = {path.name: game_in(path.read_bytes()) for path in tracked}
    assert {name: reason for name, reason in found.items() if reason} == {}


def test_no_tracked_file_is_a_save_of_a_player(tracked: list[Path]) -> None:
    assert [path.name for path in tracked if path.suffix.lower() in PLAYER_FILES] == []


def test_a_game_is_known_by_its_title_whatever_its_name_is() -> None:
    assert game_in(bytes(0x134) + b"POKEMON RED" + bytes(100))
    assert game_in(bytes(0x134) + b"DADDY" + bytes(100)) is None


def test_a_script_can_be_executed(tracked: list[Path]) -> None:
    scripts = [path for path in tracked if path.read_bytes()[:2] == b"#!"]
    assert len(scripts) > 10
    assert [path.name for path in scripts if not path.stat().st_mode & 0o111] == []


def test_no_tracked_file_is_large(tracked: list[Path]) -> None:
    sizes = {path.name: path.stat().st_size for path in tracked}
    assert {name: size for name, size in sizes.items() if size > LARGEST_BYTES} == {}


def test_the_project_stands_alone(tracked: list[Path], root: Path) -> None:
    """No path of one machine, nothing beside the checkout, no private package index."""
    here = Path(__file__)
    mentions = [
        f"{path.relative_to(root)}: {mention}"
        for path in tracked
        if path != here
        for mention in private_mentions(text_of(path))
    ]
    assert mentions == []


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/x",
        "cd /" + "root/daddy",
        "../" + "shared/y",
        "--index-url http://10.0.0.1/simple",
    ],
)
def test_each_private_mention_is_noticed(text: str) -> None:
    assert private_mentions(text)


@pytest.mark.parametrize(
    "text",
    ["~/shared_weights", "/root/.ssh", "/proc/{pid}/root/etc", "index-url https://pypi.org/x"],
)
def test_public_paths_are_left_alone(text: str) -> None:
    assert private_mentions(text) == []
