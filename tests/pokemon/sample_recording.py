"""Records the cartridge's scripted player, to measure the size of recordings."""

from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.emulator import BUTTONS, FRAMES_PER_SECOND
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.inputs import emulator_operations
from Daddy.pokemon.inputs.recording_format import Recording, encode_recording
from Daddy.pokemon.ram_map import RAM_START
from Daddy.pokemon.starts.find_start_state import recorder_at_start
from scripts.cartridge.player import Facts, Player, read_facts


def length(recording: Recording) -> int:
    """Count the frames of a recording."""
    return sum(
        operation.frames
        for operation in emulator_operations.decode_operations(recording.operations)
    )


def record_sample(steps: int, seed: int = 1, *, scripted: bool = True) -> Recording:
    """Record steps of an episode on the cartridge, by the scripted player or random buttons."""
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
    """Return the bytes of the whole file, and the seconds of play in it."""
    recording = record_sample(steps, seed, scripted=scripted)
    return len(encode_recording(recording)), length(recording) / FRAMES_PER_SECOND
