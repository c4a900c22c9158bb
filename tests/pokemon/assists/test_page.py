"""Tests that docs/assists.md lists the same facts of each assist as the registry."""

import re
from pathlib import Path

import pytest

from Daddy.core.assist_compatibility import ASSIST_NAMES
from Daddy.pokemon import story_milestones
from Daddy.pokemon.assists.assist_registry import ASSISTS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "assists.md").read_text()


def row(name: str) -> list[str]:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("name", ASSIST_NAMES)
def test_every_assist_has_a_row_with_the_milestones_that_it_serves(name: str) -> None:
    serves = set(re.findall(r"`(\w+)`", row(name)[3]))
    assert serves <= set(story_milestones.milestone_names())
    assert serves or row(name)[3].startswith("nothing")


@pytest.mark.parametrize("name", ASSIST_NAMES)
def test_what_hangs_on_the_games_program_is_not_called_proven(name: str) -> None:
    assert (" not " in f" {row(name)[4]} ") == bool(ASSISTS[name].worked)
