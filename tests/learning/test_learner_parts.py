from Daddy.core.clock import SystemClock
from Daddy.learning.learner_parts import TensorBoard


def test_curves_that_cannot_be_written_do_not_stop_a_learner_and_go_on_later(tmp_path):
    folder = tmp_path / "curves"
    folder.write_text("not a folder")
    board = TensorBoard(folder, SystemClock())
    board.scalars(1, {"loss": 1.0})
    folder.unlink()
    board.scalars(2, {"loss": 0.5})
    board.close()
    assert [path.name.startswith("events") for path in folder.iterdir()] == [True]
