"""`python -m Daddy.play --recording`, `verify` and `export`, as a person types them."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from Daddy import play
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import NetworkError, RomError
from Daddy.core.load_config import config_to_json, load_config
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.inputs.recording_format import (
    DIGEST_FRAMES,
    Recording,
    encode_recording,
    frames_before_play,
)
from Daddy.pokemon.recordings.verifying_player import ReadAhead, VerifyingPlayer
from Daddy.recording_cli import RecordingWindow
from tests.components import program
from tests.pokemon.archive.players import advance, archived
from tests.pokemon.sample_recording import length, record_sample

ROM = load_rom(cartridge_path())


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DADDY_ROM", raising=False)


@pytest.fixture(scope="module")
def tape() -> Recording:
    """A little over one digest of the scripted player's play."""
    return record_sample(280)


@pytest.fixture(scope="module")
def film(tape: Recording) -> list[bytes]:
    """Every picture of it."""
    deck, seen = VerifyingPlayer(ROM, tape), list[bytes]()
    deck.set_watcher(lambda: seen.append(deck.packed_screen()), 1)
    while not deck.finished:
        deck.step()
    deck.close()
    return seen


@pytest.fixture
def file(tape: Recording, tmp_path: Path) -> Path:
    path = tmp_path / "mine.rec"
    path.write_bytes(encode_recording(tape))
    return path


def test_verify_tells_each_milestone_where_it_was_reached(
    file: Path, capsys: pytest.CaptureFixture[str], tape: Recording
) -> None:
    assert run_entry(play.main, ["verify", str(file)]) == 0
    said = capsys.readouterr().out
    assert "step 10 (0:00:04)  greeted_dad" in said
    assert said.index("greeted_dad") < said.index("beat_leader1")
    assert "from power-on" in said
    assert f"end: {tape.end_id}" in said
    assert "not by buttons alone" not in said


def spoilt(tape: Recording, byte: int) -> Recording:
    digests = bytearray(tape.digests)
    digests[byte] ^= 1
    return replace(tape, digests=bytes(digests))


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda _: b"", 9, "is not a recording"),
        (lambda tape: encode_recording(tape)[:-1], 9, "do not match its lengths"),
        (lambda tape: b"GIF89a__" + encode_recording(tape)[8:], 9, "begins with b'GIF89a__'"),
        (
            lambda tape: encode_recording(replace(tape, pyboy="1.2.3")),
            7,
            "recorded with pyboy 1.2.3",
        ),
        (lambda tape: encode_recording(replace(tape, rom_sha1="a" * 40)), 7, "is a recording of"),
        (
            lambda tape: encode_recording(replace(tape, start="a" * 64, start_name="beginning")),
            7,
            "begins at another state",
        ),
        (
            lambda tape: encode_recording(replace(tape, start="a" * 64, start_name="/etc/passwd")),
            7,
            "begins at a state that it does not name",
        ),
        (
            lambda tape: encode_recording(spoilt(tape, 8)),
            7,
            "differs from the recording, between",
        ),
    ],
    ids=["empty", "torn", "magic", "pyboy", "game", "start", "path", "another way"],
)
def test_what_cannot_be_verified_is_a_sentence_and_a_code(
    change: Callable[[Recording], bytes], code: int, said: str, tape: Recording, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    bad = tmp_path / "bad.rec"
    bad.write_bytes(change(tape))
    assert run_entry(play.main, ["verify", str(bad)]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert "what to do" in told.err
    assert "verified:" not in told.out


def test_no_file_and_no_regular_file_are_told(tmp_path: Path) -> None:
    assert run_entry(play.main, ["verify", str(tmp_path / "none.rec")]) == 9
    assert run_entry(play.main, ["verify", str(tmp_path)]) == 9


def test_a_gif_shows_the_last_seconds_and_nothing_that_is_not_verified(
    file: Path, tape: Recording, film: list[bytes], tmp_path: Path
) -> None:
    gif = tmp_path / "end.gif"
    assert play.main(["--recording", str(file), "--gif", str(gif), "--seconds", "4"]) == 0
    with Image.open(gif) as image:
        image.seek(image.n_frames - 1)
        last = image.convert("L").resize((160, 144), Image.Resampling.NEAREST).tobytes()
    packed = film[-1]
    dark = [packed[at // 4] >> (6 - 2 * (at % 4)) & 3 for at in range(160 * 144)]
    by_shade: dict[int, set[int]] = {}
    for shade, grey in zip(dark, last, strict=True):
        by_shade.setdefault(shade, set()).add(grey)
    assert all(len(greys) == 1 for greys in by_shade.values()), "another picture"
    gif.unlink()
    file.write_bytes(encode_recording(spoilt(tape, 0)))
    with pytest.raises(RomError, match="differs from the recording"):
        play.main(["--recording", str(file), "--gif", str(gif)])
    assert not gif.exists()


def test_an_mp4_has_all_frames(file: Path, tmp_path: Path) -> None:
    program("ffmpeg", "ffmpeg")
    film = tmp_path / "all.mp4"
    typed = ["--recording", str(file), "--mp4", str(film), "--seconds", "2", "--from", "30"]
    assert play.main(typed) == 0
    assert film.read_bytes()[4:8] == b"ftyp"


# -- the window


class Hasty(SystemClock):
    """A clock for whom no pause is worth waiting for."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.is_set()


class Screen:
    """A window whose person strikes keys after so many pictures, and remembers what was shown."""

    def __init__(self, keys: dict[int, str]) -> None:
        self.keys, self.shown, self.captions = keys, list[bytes](), list[str]()
        self.closed, self.caption = False, "Daddy"

    def show_picture(self, pixels: bytes) -> list[str]:
        self.shown.append(pixels)
        self.captions.append(self.caption)
        key = self.keys.get(len(self.shown))
        return [key] if key else []


def projected(
    tape: Recording, keys: dict[int, str], ahead: int = 1, first: int = 0
) -> tuple[Screen, RecordingWindow, VerifyingPlayer]:
    """A person who strikes these keys, with so many pieces of the tape verified ahead."""
    scout, deck, screen = ReadAhead(ROM, tape), VerifyingPlayer(ROM, tape), Screen(keys)
    try:
        while not scout.finished and ahead:
            ahead -= 1
            try:
                scout.verify_next_part()
            except RomError as error:
                scout.failure, ahead = error, 0
        projector = RecordingWindow(scout, deck, screen, Hasty())
        projector.play(first, float("inf"))
        return screen, projector, deck
    finally:
        scout.close()
        deck.close()


def test_every_frame_is_drawn_in_order(tape: Recording, film: list[bytes]) -> None:
    screen, _, _ = projected(tape, {300: "q"})
    assert screen.shown == film[:300]
    assert screen.captions[0].startswith("Daddy  ·  step 0 (0:00:00)")


def test_it_begins_where_the_agent_does(tape: Recording, film: list[bytes]) -> None:
    first = frames_before_play(tape)
    assert first > 0
    screen, _, _ = projected(tape, {50: "q"}, first=first)
    assert screen.shown == film[first : first + 50]


def test_paused_the_picture_stands_and_then_goes_on(tape: Recording, film: list[bytes]) -> None:
    screen, projector, _ = projected(tape, {100: "space", 120: "space", 200: "q"})
    assert set(screen.shown[99:120]) == {screen.shown[99]}
    assert [text for text in screen.captions if text.endswith("paused")] == screen.captions[100:120]
    assert screen.shown[120:] == film[100:180]
    assert not projector.paused


def test_faster_shows_fewer_of_the_frames_and_slower_all_again(
    tape: Recording, film: list[bytes]
) -> None:
    keys = {10: "]", 11: "]", 60: "[", 61: "[", 62: "[", 70: "q"}
    screen, projector, _ = projected(tape, keys)
    assert projector.speed == 0.5
    assert screen.shown[11:60] == film[15::4][:49]
    at = 15 + 48 * 4 + 3
    assert screen.shown[61:] == film[at : at + 9]


def test_back_ahead_and_home_lead_to_the_same_pictures(tape: Recording, film: list[bytes]) -> None:
    """Rewound by playing from the nearest place that was kept."""
    first = DIGEST_FRAMES + 240
    keys = {100: "left", 150: "right", 200: "home", 250: "q"}
    screen, _, _ = projected(tape, keys, ahead=2, first=first)
    pieces = [screen.shown[:100], screen.shown[100:150], screen.shown[150:200], screen.shown[200:]]
    begun, back, ahead, home = [place_of(piece, film) for piece in pieces]
    assert first <= begun < first + 24
    assert begun + 100 - 600 <= back < begun + 100 - 570
    assert back + 50 + 590 <= ahead < back + 50 + 630
    assert home == 0


def place_of(shown: list[bytes], film: list[bytes]) -> int:
    """Index in the film of these pictures in a row."""
    return next(at for at in range(len(film)) if film[at : at + len(shown)] == shown)


def test_n_leads_to_shortly_before_the_next_milestone_and_p_back(tape: Recording) -> None:
    screen, _, _ = projected(tape, dict(zip(range(1, 300), "nnnnnnnp", strict=False)) | {30: "q"})
    steps = [int(text.split("step ")[1].split(" ")[0]) for text in screen.captions]
    assert steps[:8] == sorted(set(steps[:8]))
    assert steps[8] < steps[7]


def test_nothing_is_shown_beyond_what_is_verified(tape: Recording) -> None:
    first = DIGEST_FRAMES - 100
    keys = {200: "q"}
    screen, _, deck = projected(spoilt(tape, 8), keys, ahead=2, first=first)
    assert DIGEST_FRAMES <= deck.frames < DIGEST_FRAMES + 24
    assert screen.captions[-1].endswith("not verified from here on")
    waiting, _, deck = projected(tape, keys, first=first)
    assert DIGEST_FRAMES <= deck.frames < DIGEST_FRAMES + 24
    assert waiting.captions[-1].endswith("verifying")


def test_at_the_end_the_last_picture_stays(tape: Recording, film: list[bytes]) -> None:
    screen, _, deck = projected(tape, {400: "q"}, ahead=2, first=length(tape) - 100)
    assert deck.finished
    assert screen.captions[-1].endswith("the end")
    assert set(screen.shown[-200:]) == {film[-1]}


def test_a_real_window_shows_it_and_tells_of_what_is_not_true(
    file: Path, tape: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    typed = ["--recording", str(file), "--seconds", "1", "--speed", "16"]
    assert play.main(typed) == 0
    assert "space pauses" in capsys.readouterr().out
    from Daddy.streaming.viewer import pygame_window

    really, shown = pygame_window.GameWindow.show_picture, list[str]()

    def until_it_says_so(window: pygame_window.GameWindow, pixels: bytes) -> list[str]:
        shown.append(window.caption)
        return ["q"] if "not verified" in window.caption else really(window, pixels)

    monkeypatch.setattr(pygame_window.GameWindow, "show_picture", until_it_says_so)
    file.write_bytes(encode_recording(spoilt(tape, 0)))
    assert run_entry(play.main, typed[:2]) == 7
    assert "differs from the recording" in capsys.readouterr().err


def test_without_a_display_a_film_is_suggested(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    with pytest.raises(NetworkError, match="no display"):
        play.main(["--recording", str(file)])


# -- export


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose archive knows the way to two milestones."""
    folder, release = tmp_path / "run", tmp_path / "run" / "releases" / "abc"
    release.mkdir(parents=True)
    config = load_config(None, {"run_dir": str(tmp_path / "moved"), "archive.mode": "both"})
    env = archived(folder / "archive", ArchiveRules(follow=False))
    env.reset(seed=3)
    advance(env, 2)
    env.close()
    (release / "config.json").write_bytes(config_to_json(config))
    return folder


def test_a_milestone_of_a_run_is_exported_and_verified_by_anyone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "champion.rec"
    typed = ["export", "--run-dir", str(run), "--milestone", "met_elder", "--out", str(out)]
    assert play.main(typed) == 0
    assert "Daddy.play verify" in capsys.readouterr().out
    assert out.stat().st_size < 1_000
    assert run_entry(play.main, ["verify", str(out)]) == 0
    assert "2 milestones reached in this order" in capsys.readouterr().out
    exported = out.read_bytes()
    shutil.rmtree(run / "releases")
    assert play.main(typed) == 0, "as if it was started by hand"
    assert out.read_bytes() == exported


def test_what_cannot_be_exported_is_a_sentence_and_a_code(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = ["--out", str(tmp_path / "x.rec")]
    typed = ["export", "--run-dir", str(run), *rest, "--milestone"]
    assert run_entry(play.main, [*typed, "beat_mew"]) == 2
    assert run_entry(play.main, [*typed, "beat_leader1"]) == 9
    elsewhere = ["export", "--run-dir", str(tmp_path), *rest, "--milestone", "met_elder"]
    assert run_entry(play.main, elsewhere) == 9
    assert run_entry(play.main, [*typed, "met_elder", "--rom", str(tmp_path / "none.gb")]) == 7
    assert capsys.readouterr().err.count("what to do") == 4
    assert not (tmp_path / "x.rec").exists()
