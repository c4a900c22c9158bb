"""The guide's film is drawn from an episode's asciicast."""

from pathlib import Path

from PIL import Image

from Daddy.core.clock import SystemClock
from Daddy.terminal.episode_records import EpisodeRecords
from scripts.terminal_film import main


class Stepping(SystemClock):
    """Goes on by a second for each look."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


def test_a_film_shows_each_screen_for_its_bounded_time(tmp_path: Path) -> None:
    records = EpisodeRecords(tmp_path, "letter", 80, 4, Stepping())
    for screen in ("$ ", "$ ls\n\x1b[31mletter", "$ ls\nletter\n$ rm letter"):
        records.add_screen(screen)
    film = tmp_path / "film.gif"
    assert main([str(tmp_path / "terminal.cast"), "--out", str(film)]) == 0
    with Image.open(film) as frames:
        shown = []
        for number in range(frames.n_frames):
            frames.seek(number)
            shown.append(frames.info["duration"])
    assert shown == [1000, 1000, 4000]
