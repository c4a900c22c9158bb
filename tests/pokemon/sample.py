"""The cartridge's scripted player on tape: what recordings weigh, for benchmarks and tests."""

from __future__ import annotations

from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.emulator import BUTTONS, FRAMES_PER_SECOND
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.inputs import emulator_operations
from Daddy.pokemon.inputs.recording_format import Recording, encode_recording
from Daddy.pokemon.ram_map import RAM_START
from Daddy.pokemon.recordings.start_prefix import recorder_at_start
from scripts.cartridge.player import Facts, Player, read_facts


def length(tape: Recording) -> int:
    """Frames that a recording lasts."""
    return sum(
        operation.frames for operation in emulator_operations.decode_operations(tape.operations)
    )


def record_sample(steps: int, seed: int = 1, *, scripted: bool = True) -> Recording:
    """So many steps of an episode on the cartridge, by the scripted player or by random buttons."""
    rom = load_rom(cartridge_path())
    recorder = recorder_at_start(rom)
    env = PokemonRedEnv(cartridge_path(), episode_steps=steps + 1, recorder=recorder)
    try:
        env.reset(seed=seed)
        env.action_space.seed(seed)
        player = Player(rom.data)
        for _ in range(steps):
            if scripted:
                env.step(BUTTONS.index(player.next_button(_facts(env))))
            else:
                env.step(env.action_space.sample())
        return recorder.make_recording(f"{steps} steps of a sample")
    finally:
        env.close()


def _facts(env: PokemonRedEnv) -> Facts:
    image = env.progress.image
    return read_facts(lambda address: image[address - RAM_START])


def weigh(steps: int, seed: int = 1, *, scripted: bool = True) -> tuple[int, float]:
    """(bytes of the whole file, seconds of the game that it shows): framing and digests included"""
    tape = record_sample(steps, seed, scripted=scripted)
    return len(encode_recording(tape)), length(tape) / FRAMES_PER_SECOND
