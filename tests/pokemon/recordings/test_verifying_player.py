"""Tests that a recording of one emulator plays the same game in another, on the cartridge."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.emulator import FRAMES_PER_SECOND, PYBOY_VERSION, Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.inputs import recording_format
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.inputs.recording_format import Recording, decode_recording, encode_recording
from Daddy.pokemon.ram_map import BADGES, RANDOM
from Daddy.pokemon.recordings.verifying_player import (
    ReadAhead,
    VerifyingPlayer,
    check_recorded_start,
)
from Daddy.pokemon.starts.find_start_state import BY_HAND, beginning_state, recorder_at_start
from Daddy.pokemon.starts.start_state_folder import open_state_folder
from tests.pokemon.archive.players import advance, archived
from tests.pokemon.sample_recording import length, record_sample, weigh

ROM = load_rom(cartridge_path())
sample = lru_cache(record_sample)


@pytest.fixture
def recorder() -> InputRecorder:
    return InputRecorder(ROM.sha1, ROM.name, PYBOY_VERSION)


@pytest.fixture
def recorded(recorder: InputRecorder) -> Iterator[Emulator]:
    """Make an emulator at power-on with a recorder."""
    emulator = Emulator(ROM.data, recorder)
    yield emulator
    emulator.close()


def scouted(found: Recording, start: bytes = b"") -> ReadAhead:
    """Verify the whole recording; return the report."""
    scout = ReadAhead(ROM, found, start)
    try:
        while not scout.finished:
            scout.verify_next_part()
    finally:
        scout.close()
    return scout


def played(
    found: Recording, start: bytes = b"", watched: Callable[[], None] | None = None
) -> bytes:
    """Play a recording; return the memory at its end."""
    player = VerifyingPlayer(ROM, found, start)
    player.set_watcher(watched, 1)
    try:
        while not player.finished:
            player.step()
        return bytes(player.memory())
    finally:
        player.close()


def test_all_that_can_be_done_at_the_door_is_done_again(
    recorded: Emulator, recorder: InputRecorder
) -> None:
    """Hold keys, wait, write, and load saved states, over several digests."""
    for number in range(40):
        recorded.hold({"start", "a"} if number % 2 else (), 3)
        recorded.wait(50)
    kept = recorded.dump_state()
    for button in ("down", "left", "a", "b") * 75:
        recorded.press(button)
    recorded.write(RANDOM[0], 77)
    recorded.idle()
    recorded.restore_state(kept)
    recorded.hold({"up"}, 100)
    found = decode_recording(encode_recording(recorder.make_recording("everything")), "mine")
    assert len(found.digests) == 2 * recording_format.DIGEST_BYTES
    frames: list[None] = []
    assert played(found) == recorded.ram()
    assert played(found, watched=lambda: frames.append(None)) == recorded.ram()
    assert len(frames) == length(found)


def test_what_is_written_after_the_last_frame_has_a_digest_of_its_own(
    recorded: Emulator, recorder: InputRecorder
) -> None:
    recorded.wait(recording_format.DIGEST_FRAMES)
    recorded.write(RANDOM[0], 77)
    found = decode_recording(encode_recording(recorder.make_recording()), "mine")
    assert len(found.digests) == 2 * recording_format.DIGEST_BYTES
    assert played(found) == recorded.ram()
    with pytest.raises(RomError, match="differs from the recording"):
        played(replace(found, digests=found.digests[:8] + bytes(8)))


def test_being_recorded_changes_nothing() -> None:
    states = []
    for recorder in (None, recorder_at_start(ROM)):
        game = PokemonRedEnv(cartridge_path(), recorder=recorder)
        game.reset(seed=4)
        for action in (0, 1, 4, 3, 2, 5, 6) * 8:
            game.step(action)
        states.append(game.save_state())
        game.close()
    assert states[0] == states[1]


def test_an_episode_is_played_again_from_power_on_and_shows_what_was_reached() -> None:
    found = sample(400)
    assert found.from_power_on
    report = scouted(found).report
    assert list(report.reached)[:3] == ["greeted_dad", "met_elder", "got_starter"]
    assert "beat_leader1" in report.reached
    assert sorted(report.reached.values()) == list(report.reached.values())
    assert (report.held, report.writes, report.cuts) == (frozenset(), 0, [])
    assert (report.dice, report.frames) == (2, length(found))


def test_a_recording_is_about_a_byte_a_second() -> None:
    """Bytes per step with digests, less the constant framing."""
    found, short = sample(400), sample(20)
    framing, seconds = len(encode_recording(short)), length(found) / FRAMES_PER_SECOND
    assert weigh(20) == (framing, length(short) / FRAMES_PER_SECOND)
    assert framing < 400
    assert len(encode_recording(found)) - framing < seconds
    assert len(found.operations) < 480, "a step is a byte before it is packed"


def test_the_first_digest_that_differs_ends_it_and_says_where() -> None:
    found = sample(400)
    second = bytearray(found.digests)
    second[8] ^= 1
    scout = ReadAhead(ROM, replace(found, digests=bytes(second)))
    scout.verify_next_part()
    verified = scout.report
    assert verified.frames < length(found)
    for _ in range(2):
        with pytest.raises(RomError, match=r"recording, between step 25\d .* and step 4\d\d"):
            scout.verify_next_part()
    assert scout.report == verified, "what is not verified is not told"
    scout.close()


def test_another_button_is_noticed_at_the_next_digest() -> None:
    found = sample(400)
    done = bytearray(found.operations)
    at = next(i for i in range(60, len(done)) if done[i] == 0)
    done[at : at + 1] = bytes([3])
    with pytest.raises(RomError, match="the game differs from the recording"):
        played(replace(found, operations=bytes(done)))


def test_a_milestone_that_was_written_is_told_apart(
    recorded: Emulator, recorder: InputRecorder
) -> None:
    recorded.restore_state(beginning_state(ROM))
    recorded.press("down")
    recorded.write(BADGES, 255)
    recorded.press("down")
    report = scouted(recorder.make_recording("cheated"), beginning_state(ROM)).report
    assert (report.writes, report.dice) == (1, 0)


def test_back_to_its_own_start_is_a_cut_and_a_state_from_elsewhere_ends_it() -> None:
    recorder = recorder_at_start(ROM)
    game = PokemonRedEnv(cartridge_path(), recorder=recorder)
    for seed in (1, 2):
        game.reset(seed=seed)
        for _ in range(5):
            game.step(0)
    found = recorder.make_recording()
    other = Emulator(ROM.data)
    game._emulator.restore_state(other.dump_state())
    assert recorder.ended
    game.step(0)
    assert recorder.make_recording() == found
    assert len(scouted(found).report.cuts) == 1
    other.close()
    game.close()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("own_cache")
def test_a_start_that_is_driven_to_is_played_from_power_on() -> None:
    found = recorder_at_start(ROM, "pokedex").make_recording()
    assert found.from_power_on
    assert "got_almanac" in scouted(found).report.held


@pytest.mark.usefixtures("own_cache")
def test_a_start_made_by_hand_is_asked_for_by_its_name() -> None:
    """The inputs to the state are unknown: the recording begins at the state without holding it."""
    emulator = Emulator(ROM.data)
    emulator.restore_state(beginning_state(ROM))
    emulator.hold({"down"}, 40)
    emulator.hold((), 1)
    spot = emulator.dump_state()
    emulator.close()
    open_state_folder(ROM.sha1).write_state("spot", BY_HAND, spot)
    recorder = recorder_at_start(ROM, "spot")
    game = PokemonRedEnv(cartridge_path(), init_state="spot", recorder=recorder)
    game.reset(seed=1)
    game.step(1)
    found = recorder.make_recording(start_name="spot")
    assert not found.from_power_on
    assert played(found, spot) == game._emulator.ram()
    with pytest.raises(RomError, match="begins at another state than 'spot'"):
        check_recorded_start(found, beginning_state(ROM))
    game.close()


def test_another_game_and_another_pyboy_are_refused_by_name() -> None:
    found = sample(400)
    with pytest.raises(RomError, match="recording of Pokémon Red"):
        VerifyingPlayer(ROM, replace(found, rom="Pokémon Red", rom_sha1="a" * 40))
    with pytest.raises(RomError, match=r"recorded with pyboy 9\.9\.9, and here is"):
        VerifyingPlayer(ROM, replace(found, pyboy="9.9.9"))


def test_any_place_that_is_verified_can_be_gone_back_to() -> None:
    found = sample(400)
    scout = ReadAhead(ROM, found)
    while not scout.finished:
        scout.verify_next_part()
    player = VerifyingPlayer(ROM, found)
    seen = {}
    while not player.finished:
        player.step()
        seen[player.frames] = (bytes(player.memory()), player.packed_screen())
    for goal in sorted(seen, reverse=True)[:: len(seen) // 4]:
        scout.seek_player(player, goal)
        assert 0 <= goal - player.frames < 2 * recording_format.DIGEST_FRAMES
        while player.frames < goal:
            player.step()
        assert (bytes(player.memory()), player.packed_screen()) == seen[goal]
    scout.close()
    player.close()


def test_a_recording_with_an_archive_ends_where_a_state_of_it_is_loaded(tmp_path: Path) -> None:
    """The recording ends at the load of a foreign state; the part before is complete."""
    first = archived(tmp_path, ArchiveRules(follow=False))
    first.reset(seed=1)
    advance(first, 2)
    recorder = recorder_at_start(ROM)
    second = archived(tmp_path, ArchiveRules(starts=True, fresh=0.0), recorder=recorder)
    second.reset(seed=2)
    assert recorder.ended == "a state that the recording has not saved is loaded"
    scouted(recorder.make_recording())
    first.close()
    second.close()
