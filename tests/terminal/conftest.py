"""A tiny model that replies in the format; its quality does not matter here."""

import random
from pathlib import Path

import pytest

from Daddy.core.errors import ExtraMissingError
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.tiny_terminal_corpus import make_chats
from tests.terminal.episodes import COUNT


@pytest.fixture(scope="session")
def terminal_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        from Daddy.grpo.tiny_model import TinyRecipe, warm_tiny_model
    except ExtraMissingError as error:
        pytest.skip(str(error))
    corpus = make_chats({COUNT.name: read_task(COUNT).instruction}, 5, random.Random(0), 300)
    recipe = TinyRecipe(width=32, layers=1, vocabulary=700, steps=60, batch=8, learning_rate=1e-2)
    return warm_tiny_model(corpus, recipe, tmp_path_factory.mktemp("models"), lambda *_: None)
