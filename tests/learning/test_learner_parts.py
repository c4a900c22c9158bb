import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.settings import Config
from Daddy.learning import learner_parts
from Daddy.learning.learner_parts import TensorBoard, assemble


@pytest.mark.parametrize(
    ("executor", "slots", "threads"),
    [("local", 2, 4), ("local", 4, 4), ("local", 8, 2), ("local", 32, 0), ("slurm", 8, 4)],
)
def test_learners_of_one_machine_share_its_cores(monkeypatch, executor, slots, threads):
    asked = []
    monkeypatch.setattr(learner_parts, "usable_cores", lambda: 16)
    monkeypatch.setattr(learner_parts, "limit_threads", asked.append)

    def none_left():
        raise InterruptedError

    settings = {
        "training": {"device": "cpu"},
        "slurm": {"max_running": slots},
        "controller": {"executor": executor},
    }
    with pytest.raises(InterruptedError):
        assemble(Config.model_validate(settings), None, None, none_left)
    assert asked == [threads]  # limit_threads makes at least one of it


def test_curves_that_cannot_be_written_do_not_stop_a_learner_and_go_on_later(tmp_path):
    folder = tmp_path / "curves"
    folder.write_text("not a folder")
    board = TensorBoard(folder, SystemClock())
    board.scalars(1, {"loss": 1.0})
    folder.unlink()
    board.scalars(2, {"loss": 0.5})
    board.close()
    assert [path.name.startswith("events") for path in folder.iterdir()] == [True]
