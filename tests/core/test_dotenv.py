from pathlib import Path

import pytest

from Daddy.core.dotenv import load_dotenv
from Daddy.core.errors import ConfigError


def loaded(folder: Path, text: str, **already: str) -> dict[str, str]:
    (folder / ".env").write_text(text)
    load_dotenv(folder, already)
    return already


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=secret", "secret"),
        ("export KEY=secret", "secret"),
        ("  KEY = secret  ", "secret"),
        ("KEY=secret # a comment", "secret"),
        ("KEY=sec#ret=x", "sec#ret=x"),
        ("KEY='two words # not a comment'", "two words # not a comment"),
        ('KEY="two words" # a comment', "two words"),
        ("KEY=it's", "it's"),
        ("KEY=$HOME`id`", "$HOME`id`"),
    ],
)
def test_a_line_sets_a_variable(tmp_path: Path, line: str, value: str) -> None:
    assert loaded(tmp_path, f"# comment\n\n{line}\n") == {"KEY": value}


def test_the_environment_wins_and_an_empty_line_is_none(tmp_path: Path) -> None:
    text = "A=file\nB=file\nC=\nD=''\nE=file\n"
    assert loaded(tmp_path, text, A="shell", E="") == {"A": "shell", "B": "file", "E": ""}


def test_a_folder_without_the_file_sets_nothing(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    assert load_dotenv(tmp_path, environment) == []
    assert environment == {}


@pytest.mark.parametrize("line", ["s3cret", "9KEY=s3cret", "KEY='s3cret", 'KEY="s3cret" s3cret'])
def test_a_line_that_is_no_assignment_is_named_without_its_value(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match="line 2: no NAME=VALUE") as caught:
        loaded(tmp_path, f"A=b\n{line}\n")
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"KEY=\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_dotenv(tmp_path, {})
