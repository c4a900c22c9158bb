"""Measures bytes and processor time per picture, of our codec and others, on one corpus."""

import base64
import io
import json
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import mean

from PIL import Image

from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.login.flow_control import MIN_WINDOW, StreamSender
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.frame_codec import FrameDecoder
from Daddy.streaming.protocol.messages import Frame
from Daddy.streaming.protocol.spool_segment import CapturedPicture
from scripts.benches._stream_corpus import rgb, shades

FPS = 15.0
SLOW = 200
"""Pictures given to an encoder whose size or time hardly depends on the picture."""


def peers(pictures: Sequence[bytes]) -> dict[str, object]:
    """Measure the seed code's message and PNG."""
    return {
        "seed": measure(_seed, pictures[:SLOW]),
        "png": measure(_png_palette, pictures),
        "png_rgb": measure(_png_rgb, pictures[:SLOW]),
    }


def measure(
    encode: Callable[[Sequence[bytes]], list[int]], pictures: Sequence[bytes]
) -> dict[str, float]:
    """Return the mean bytes and processor time per picture."""
    began = time.process_time()
    sizes = encode(pictures)
    spent = time.process_time() - began
    return {"bytes_per_frame": mean(sizes), "cpu_us_per_frame": spent / len(sizes) * 1e6}


def wholes(pictures: Sequence[bytes]) -> list[int]:
    """Return the size of each picture encoded as a whole."""
    return [len(frame_codec.encode(picture)) for picture in pictures]


def deltas(pictures: Sequence[bytes]) -> list[int]:
    """Return the sizes of the relay's deltas, each acknowledged before the next, without wholes."""
    return [len(frame.data) for frame in sent(pictures) if frame.base]


def sent(pictures: Sequence[bytes]) -> Iterator[Frame]:
    """Yield the frames of a relay at 15 pictures a second, each acknowledged before the next."""
    sender = StreamSender()
    for number, picture in enumerate(pictures):
        now = number / FPS
        sender.set_picture(CapturedPicture(0, number, 0, round(now * 1000), picture))
        if (frame := sender.next_frame(now, MIN_WINDOW)) is not None:
            sender.handle_ack(frame.seq, now)
            yield frame


def decoding_us(pictures: Sequence[bytes]) -> float:
    """Return the processor time of a viewer per frame, up to the row-major picture."""
    frames, viewer = list(sent(pictures)), FrameDecoder()
    began = time.process_time()
    for frame in frames:
        viewer.decode(frame)
    return (time.process_time() - began) / len(frames) * 1e6


def _seed(pictures: Sequence[bytes]) -> list[int]:
    """Return the sizes of the seed code's messages: length, JSON, base64 of raw RGB, metadata."""
    return [
        len(seed_message(rgb(picture).tobytes(), step, "job0_env3", 1_790_000_000.25))
        for step, picture in enumerate(pictures)
    ]


def seed_message(raw: bytes, step: int, agent: str, taken_at: float) -> bytes:
    """Return one picture as the seed code sends it; ``raw`` is (144, 160, 3) uint8."""
    message = {
        "type": "frame",
        "agent_id": agent,
        "step": step,
        "shape": [SCREEN_HEIGHT, SCREEN_WIDTH, 3],
        "dtype": "uint8",
        "frame_b64": base64.b64encode(raw).decode(),
        "timestamp": taken_at,
        "meta": {"score": 7, "episode_reward": 12.5, "episode_id": 3, "job_rank": 0},
    }
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, "big") + data


def _png_palette(pictures: Sequence[bytes]) -> list[int]:
    return [_png_size(Image.fromarray(shades(picture), "P"), bits=2) for picture in pictures]


def _png_rgb(pictures: Sequence[bytes]) -> list[int]:
    return [_png_size(Image.fromarray(rgb(picture), "RGB")) for picture in pictures]


def _png_size(image: Image.Image, **options: int) -> int:
    if image.mode == "P":
        image.putpalette([255, 255, 255, 170, 170, 170, 85, 85, 85, 0, 0, 0])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.tell()


def floor(pictures: Sequence[bytes]) -> float:
    """Return the bytes per picture of ``xz -9e`` over the whole sequence at once."""
    whole = b"".join(frame_codec.to_tiles(picture) for picture in pictures)
    return len(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME)) / len(pictures)
