"""What a picture costs on its way home, beside what the public code of this kind sends.

The corpus is the cartridge played by the scripted player with a share of random keys, one picture a
step, as training takes them: the same bytes on every machine. Every codec encodes all of it in the
same run, whole pictures against nothing and deltas against the picture before. The floor is
``xz -9e`` over the whole sequence at once, which no live stream can reach. Then a real sender,
relay and viewer carry the corpus over a real socket.
"""

from __future__ import annotations

import base64
import io
import json
import lzma
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from Daddy.core.clock import SystemClock
from Daddy.core.rom import load_rom
from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH, AgentReport
from Daddy.pokemon.cartridge.player import Player, read_facts
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.ram_map import RAM_SIZE, RAM_START
from Daddy.pokemon.rom import find_rom
from Daddy.pokemon.starts.boot import beginning
from Daddy.streaming import codec
from Daddy.streaming.best_selector import AgentKey, Candidate, Featured, Rules, score, select
from Daddy.streaming.messages import FRAME_HEAD, Wish
from Daddy.streaming.protocol import HEADER, MAC_BYTES
from Daddy.streaming.receiver import Receiver
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tokens import ensure_token, load_tokens
from Daddy.streaming.tunnel_client import FrameSender

STEPS, QUICK_STEPS = 1500, 300
JOURNEY_S, QUICK_JOURNEY_S = 20.0, 5.0
HOURS, QUICK_HOURS = 4.0, 0.5
RANDOM_SHARE = 0.3
ENVELOPE = HEADER.size + FRAME_HEAD.size + MAC_BYTES
FPS, AGENTS = 15.0, 2


def run(quick: bool) -> dict[str, object]:
    """Bytes and processor time per picture, ours and others', and a journey end to end."""
    pictures, step_s = record(QUICK_STEPS if quick else STEPS)
    delta, key = measure(_deltas, pictures), measure(_wholes, pictures)
    peers = {
        "seed": measure(_seed, pictures[:200]),
        "png": measure(_png_palette, pictures),
        "png_rgb": measure(_png_rgb, pictures[:200]),
    }
    floor = _floor(pictures)
    ours = delta["bytes_per_frame"]
    encoding = delta["cpu_us_per_frame"] * FPS * AGENTS / 1e6
    return {
        "pictures": len(pictures),
        "ours": {
            "delta": delta["bytes_per_frame"],
            "key": key["bytes_per_frame"],
            "delta_cpu_us": delta["cpu_us_per_frame"],
            "key_cpu_us": key["cpu_us_per_frame"],
            "envelope_bytes": ENVELOPE,
            "of_a_core_at_2x15_fps": encoding,
            "offer_us": _offer_us(pictures[0]),
            "emulated_step_us": step_s * 1e6,
        },
        "peers": peers,
        "floor_xz": floor,
        "ratios": {
            "seed_to_ours": peers["seed"]["bytes_per_frame"] / (ours + ENVELOPE),
            "png_to_ours": peers["png"]["bytes_per_frame"] / (ours + ENVELOPE),
            "ours_to_floor": ours / floor,
        },
        "selection": simulate(QUICK_HOURS if quick else HOURS),
        "journey": journey(pictures, QUICK_JOURNEY_S if quick else JOURNEY_S),
    }


def record(steps: int) -> tuple[list[bytes], float]:
    """Pictures of a game half played, half fumbled; and the seconds of one emulated step."""
    rom = load_rom(find_rom(None, environ={}))
    chance, player, emulator = random.Random(7), Player(rom.data), Emulator(rom.data)
    emulator.load_state(beginning(rom))
    pictures, spent = [], []
    for _ in range(steps):
        image = emulator.ram(((RAM_START, RAM_START + RAM_SIZE),))
        button = player.next_button(read_facts(partial(_peek, image)))
        fumbles = chance.random() < RANDOM_SHARE
        began = time.perf_counter()
        emulator.press(chance.choice(BUTTONS) if fumbles else button)
        spent.append(time.perf_counter() - began)
        pictures.append(emulator.picture())
    emulator.close()
    return pictures, median(spent)


def _peek(image: bytes | bytearray, address: int) -> int:
    return image[address - RAM_START]


def measure(
    encode: Callable[[Sequence[bytes]], list[int]], pictures: Sequence[bytes]
) -> dict[str, float]:
    """Mean bytes and processor time per picture."""
    began = time.process_time()
    sizes = encode(pictures)
    spent = time.process_time() - began
    return {"bytes_per_frame": mean(sizes), "cpu_us_per_frame": spent / len(sizes) * 1e6}


def _wholes(pictures: Sequence[bytes]) -> list[int]:
    return [len(codec.encode(one)) for one in pictures]


def _deltas(pictures: Sequence[bytes]) -> list[int]:
    """As the relay does it: the base is already in tile order."""
    base, sizes = codec.to_tiles(pictures[0]), []
    for one in pictures[1:]:
        tiles = codec.to_tiles(one)
        sizes.append(len(codec.deflate(tiles, base)))
        base = tiles
    return sizes


def _shades(picture: bytes) -> NDArray[np.uint8]:
    packed = np.frombuffer(picture, np.uint8)
    places = [packed >> shift & 3 for shift in (6, 4, 2, 0)]
    values: NDArray[np.uint8] = np.stack(places, axis=1)
    return values.reshape(SCREEN_HEIGHT, SCREEN_WIDTH)


def _rgb(picture: bytes) -> NDArray[np.uint8]:
    grey = (255 - 85 * _shades(picture)).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def _seed(pictures: Sequence[bytes]) -> list[int]:
    """The public code's message: length, JSON, base64 of raw RGB, metadata."""
    return [len(_seed_message(_rgb(one).tobytes(), step)) for step, one in enumerate(pictures)]


def _seed_message(raw: bytes, step: int) -> bytes:
    message = {
        "type": "frame",
        "agent_id": "job0_env3",
        "step": step,
        "shape": [SCREEN_HEIGHT, SCREEN_WIDTH, 3],
        "dtype": "uint8",
        "frame_b64": base64.b64encode(raw).decode(),
        "timestamp": 1_790_000_000.25,
        "meta": {"score": 7, "episode_reward": 12.5, "episode_id": 3, "job_rank": 0},
    }
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, "big") + data


def _png_palette(pictures: Sequence[bytes]) -> list[int]:
    return [_png_size(Image.fromarray(_shades(one), "P"), bits=2) for one in pictures]


def _png_rgb(pictures: Sequence[bytes]) -> list[int]:
    return [_png_size(Image.fromarray(_rgb(one), "RGB")) for one in pictures]


def _png_size(image: Image.Image, **options: int) -> int:
    if image.mode == "P":
        image.putpalette([255, 255, 255, 170, 170, 170, 85, 85, 85, 0, 0, 0])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.tell()


def _floor(pictures: Sequence[bytes]) -> float:
    whole = b"".join(codec.to_tiles(one) for one in pictures)
    return len(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME)) / len(pictures)


def _offer_us(picture: bytes) -> float:
    """What offering one picture costs the training thread, while it is wanted."""
    with tempfile.TemporaryDirectory() as folder, FrameSender(Path(folder), "slot-0") as sender:
        sender._wanted, sender._interval_s = frozenset({0}), 0.0  # noqa: SLF001 - no relay here
        began = time.perf_counter()
        for _ in range(2000):
            sender.offer(0, picture)
        return (time.perf_counter() - began) / 2000 * 1e6


def simulate(hours: float) -> dict[str, dict[str, float]]:
    """32 agents whose scores grow through episodes of 137 s: ours beside "always the best"."""
    calm = Rules()
    restless = Rules(0.0, 0.0, 0.0, 1, 0.0)
    return {"ours": _simulate(hours, calm), "always_the_best": _simulate(hours, restless)}


def _simulate(hours: float, rules: Rules) -> dict[str, float]:
    chance, seconds = random.Random(1), round(hours * 3600)
    agents = [_Episode(chance) for _ in range(32)]
    places: tuple[Featured, ...] = ()
    shown, dwells, kept = dict[AgentKey, int](), list[int](), list[float]()
    for now in range(seconds):
        ranks = [one.report(index, now) for index, one in enumerate(agents)]
        candidates = [Candidate(AgentKey("slot-0", one.agent), one, now) for one in ranks]
        before, places = places, select(candidates, places, AGENTS, now, rules).places
        for gone in {one.key for one in before} - {one.key for one in places}:
            dwells.append(now - shown.pop(gone))
        for one in places:
            shown.setdefault(one.key, now)
        best = sum(sorted((score(one) for one in ranks), reverse=True)[:AGENTS])
        seen = sum(score(ranks[one.key.agent]) for one in places)
        kept.append(seen / best if best else 1.0)
    return {
        "median_dwell_s": float(median(dwells or [seconds])),
        "switches_per_min_and_place": len(dwells) / AGENTS / (seconds / 60),
        "of_best_score": mean(kept),
    }


class _Episode:
    """An agent that gathers points at random moments until its episode ends."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number, self._points, self._gain = 0, 0, 0.0
        self._ends = chance.uniform(0, 137)

    def report(self, agent: int, now: int) -> AgentReport:
        if now >= self._ends:
            self._number, self._points, self._gain = self._number + 1, 0, 0.0
            self._ends = now + self._chance.gauss(137, 20)
        self._points += self._chance.random() < 1 / 12
        self._gain += self._chance.random()
        return AgentReport(agent, 0, self._points, self._gain, self._number, 0, "", 5, now)


def journey(pictures: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Two agents from a sender through spool, relay and socket to a viewer, paced as wanted."""
    clock, stop = SystemClock(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        run_dir, token = Path(folder) / "run", Path(folder) / "token"
        (run_dir / "stream").mkdir(parents=True)
        ensure_token(token, "bench")
        receiver = Receiver(0, lambda: load_tokens([token]), Wish(AGENTS, FPS), clock)
        relay = make_relay(run_dir, receiver.port, [token], Wish(AGENTS, FPS), "spool", clock)
        threads = [
            threading.Thread(target=relay.run, args=(stop,)),
            threading.Thread(target=_play, args=(run_dir / "stream", pictures, stop)),
        ]
        for thread in threads:
            thread.start()
        try:
            return _watch(receiver, seconds)
        finally:
            stop.set()
            for thread in threads:
                thread.join(5)
            receiver.close()


def _play(stream: Path, pictures: Sequence[bytes], stop: threading.Event) -> None:
    with FrameSender(stream, "slot-0") as sender:
        step = 0
        while not stop.wait(1 / 60):
            step += 1
            sender.report([_report(agent, step) for agent in range(AGENTS)])
            for agent in sender.wanted():
                sender.offer(agent, pictures[(step + 40 * agent) % len(pictures)])


def _report(agent: int, step: int) -> AgentReport:
    return AgentReport(agent, 0, 0, 0.0, 0, 0, "nowhere", 5, step)


def _watch(receiver: Receiver, seconds: float) -> dict[str, float]:
    give_up = time.monotonic() + 10
    while not receiver.scene(AGENTS).frames and time.monotonic() < give_up:
        time.sleep(0.05)
    before, began, ages = sum(receiver.scene(AGENTS).frames.values()), time.monotonic(), []
    while time.monotonic() - began < seconds:
        ages += [panel.age_s for panel in receiver.scene(AGENTS).panels if panel.pixels]
        time.sleep(0.1)
    scene = receiver.scene(AGENTS)
    shown = sum(scene.frames.values()) - before
    return {
        "frames_per_s_and_agent": shown / (time.monotonic() - began) / AGENTS,
        "wanted_per_s_and_agent": FPS,
        "age_p50_s": float(np.percentile(ages or [0], 50)),
        "age_p95_s": float(np.percentile(ages or [0], 95)),
        "body_bytes_per_frame": mean([one.bytes_per_frame for one in scene.panels] or [0.0]),
    }
