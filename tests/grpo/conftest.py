"""A tiny model of a minimal recipe: its quality does not matter here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.core.errors import ExtraMissingError
from Daddy.core.event_loop_thread import EventLoopThread
from tests.components import absent

PROMPTS = {name: f'def {name}(xs):\n    """Return {name}."""\n' for name in ("one", "two")}
CORPUS = [
    (prompt, f"    return {value}\n")
    for prompt in PROMPTS.values()
    for value in ["xs", "0", "1", "2"]
]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        from Daddy.grpo.tiny_model import TinyRecipe, warm_tiny_model
    except ExtraMissingError as error:
        absent("the extra grpo", str(error))
    import torch

    torch.set_num_threads(1)  # also where a test names the model as a folder
    recipe = TinyRecipe(width=32, layers=1, steps=80, learning_rate=1e-2)
    return warm_tiny_model(CORPUS * 20, recipe, tmp_path_factory.mktemp("models"), lambda *_: None)


@pytest.fixture(scope="session")
def loop() -> Iterator[EventLoopThread]:
    with EventLoopThread() as thread:
        yield thread
