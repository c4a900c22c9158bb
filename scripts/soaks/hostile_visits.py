"""Lets a hostile peer send some dozens of damaged messages to each decoder of the stream.

Each visit raises any error that the decoder's docstring does not announce. It returns the number of
messages sent, the number refused, and the bytes of pictures that the connection may hold at its end
beside its 64 KiB.
"""

import contextlib
import json
import random
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login.stream_folder import read_watch_request
from Daddy.streaming.login.stream_scheduler import StreamScheduler
from Daddy.streaming.protocol import frame_codec, framing, messages
from Daddy.streaming.protocol.framing import Message, MessageKind, ProtocolError
from Daddy.streaming.protocol.handshake import RELAY, VIEWER, StreamSession
from Daddy.streaming.protocol.messages import Status, Subscription, read_status, read_subscription
from Daddy.streaming.protocol.spool_segment import (
    HEAD,
    CapturedPicture,
    FramePacker,
    WriterIdentity,
    pack_file,
    pack_head,
    pack_reports,
    read_segment,
)
from Daddy.streaming.viewer.compose_window import draw_window
from Daddy.streaming.viewer.headless_viewer import agent_text
from Daddy.streaming.viewer.key_bindings import ViewOptions
from Daddy.streaming.viewer.view_model import RelayState, TunnelInfo, compose_scene
from scripts.soaks import hostile_relay
from scripts.soaks.mutate import changed, mutate

LENGTH = 40
"""Messages of one visit."""
_PICTURE = SCREEN_BYTES + 33
"""Bytes that Python uses for a picture."""
_SIZE = (800, 600)
_ABOUT = Status("slim_run", "pokemon_red", "login1", "ssh-R")


class Visit(NamedTuple):
    """The result of one visit: messages sent and refused, bytes of pictures held."""

    thrown: int
    refused: int
    pictures: int = 0


def stranger_at_the_viewer(chance: random.Random) -> Visit:
    """Connect to the viewer's port without the token."""
    return _stranger(
        StreamSession(VIEWER, [hostile_relay.TOKEN], hostile_relay.MAKE_VIEWER), RELAY, chance
    )


def stranger_at_the_relay(chance: random.Random) -> Visit:
    """Listen without the token where the relay expects a viewer."""
    return _stranger(
        StreamSession(RELAY, [hostile_relay.TOKEN], hostile_relay.MAKE_RELAY), VIEWER, chance
    )


def _stranger(session: StreamSession, role: str, chance: random.Random) -> Visit:
    wire, thrown = hostile_relay.greeting_stream(role, chance), 0
    while wire:
        piece = chance.randrange(1, 400)
        thrown += 1
        try:
            got = session.receive(wire[:piece])
        except ProtocolError:
            return Visit(thrown, 1)
        if got or session.established:
            raise AssertionError("a peer without the token was authenticated")
        wire = wire[piece:]
    return Visit(thrown, 0)


def false_relay(chance: random.Random) -> Visit:
    """Send any session, message and picture as a relay that has the token."""
    return _deceive(RelayState("ssh"), chance)


def looked_at(chance: random.Random) -> Visit:
    """Do the same, then print the scene and draw the window."""
    state = RelayState("ssh")
    visit = _deceive(state, chance)
    scene = compose_scene([state], 4, float(LENGTH), (), "", {})
    for panel in scene.panels:
        agent_text(panel, 1, 200)
    draw_window(scene, _SIZE, ViewOptions(4), TunnelInfo(9999, "anna@login"))
    return visit


def _deceive(state: RelayState, chance: random.Random) -> Visit:
    session, seal = hostile_relay.authenticated(VIEWER)
    streams, seen = set[int](), 0
    for count in range(1, LENGTH + 1):
        data = hostile_relay.spoilt(hostile_relay.relay_says(chance), chance)
        try:
            for message in session.receive(seal(data)):
                answers, _ = state.handle_message(message, float(count))
                for answer in answers:
                    session.send(answer)
                    seen += answer.kind == MessageKind.ACK
                    streams.add(answer.stream)
            session.take_output()
        except ProtocolError:
            return Visit(count, 1, _PICTURE * (seen + len(streams)))
        if not hostile_relay.fits(data):
            break
    return Visit(count, 0, _PICTURE * (seen + len(streams)))


def false_viewer(chance: random.Random) -> Visit:
    """Send any message as a viewer that has the token to a relay that sends pictures."""
    session, seal = hostile_relay.authenticated(RELAY)
    scheduler = StreamScheduler(_ABOUT, Subscription(2, 15.0), FeaturingRules())
    for count in range(1, LENGTH + 1):
        data = hostile_relay.spoilt(hostile_relay.viewer_says(chance), chance)
        try:
            for message in session.receive(seal(data)):
                if message.kind == MessageKind.SUBSCRIBE:
                    scheduler.subscription = read_subscription(message.body)
                elif message.kind == MessageKind.PONG:
                    messages.read_stamps(message.body)
                else:
                    scheduler.handle_viewer_message(message, float(count))
        except ProtocolError:
            return Visit(count, 1)
        if not hostile_relay.fits(data):
            break
    return Visit(count, 0)


_READERS: tuple[Callable[[bytes], object], ...] = (
    messages.read_frame, messages.read_rows, messages.read_ack, messages.read_stamps,
    read_subscription, read_status, framing.unpack_json, framing.read_bye,
)  # fmt: skip


def bodies(chance: random.Random) -> Visit:
    """Give damaged bodies of all kinds to every reader."""
    refused = 0
    for _ in range(LENGTH):
        says = chance.choice((hostile_relay.relay_says, hostile_relay.viewer_says))
        try:
            chance.choice(_READERS)(changed(says(chance).body, chance))
        except ProtocolError:
            refused += 1
    return Visit(LENGTH, refused)


def pictures(chance: random.Random) -> Visit:
    """Decode damaged bytes of every format, with and without bases, and a deflate bomb."""
    refused, decoder = 0, frame_codec.FrameDecoder()
    for number in range(1, LENGTH // 4 + 1):
        base = hostile_relay.picture(chance.randrange(40)) if chance.random() < 0.5 else None
        data = frame_codec.encode(hostile_relay.picture(number), base)
        if chance.random() < 0.05:
            data = zlib.compress(bytes(2_000_000), 9)[2:-4]
        try:
            frame_codec.decode(changed(data, chance), base)
        except frame_codec.CodecError:
            refused += 1
        shown = [
            frame_codec.split_tiles(frame_codec.to_tiles(hostile_relay.picture(number + later)))
            for later in range(3)
        ]
        if chance.random() < 0.5:
            data = frame_codec.deflate_tiled(shown[0], shown[1:])
        with contextlib.suppress(frame_codec.CodecError):
            frame_codec.inflate_tiled(changed(data, chance), shown[1:])
        facts = (number, chance.randrange(number), 0, 0, 0, changed(data, chance))
        decoder.decode(messages.Frame(*facts, chance.randrange(4), chance.randrange(3)))
    return Visit(LENGTH // 2, refused)


def segments(chance: random.Random) -> Visit:
    """Read spool files with a valid checksum and damaged content, up to the relay's messages."""
    scheduler, refused = StreamScheduler(_ABOUT, Subscription(2, 15.0), FeaturingRules()), 0
    for number in range(1, LENGTH // 4 + 1):
        data = _segment(number, chance)
        segment = read_segment(data)
        refused += segment is None
        if segment:
            scheduler.add_segments([segment], float(number))
            scheduler.choose_agents(float(number))
            for message in [
                *scheduler.status_messages(number + 0.1),
                *scheduler.due_frames(number + 0.1),
            ]:
                framing.pack_message(message)
    return Visit(LENGTH // 4, refused)


def _segment(number: int, chance: random.Random) -> bytes:
    writer = WriterIdentity(f"slot-{chance.randrange(4)}", "node1", "17", f"{number:08d}")
    taken = [
        CapturedPicture(n % 2, n, 0, 66 * n, hostile_relay.picture(n))
        for n in range(chance.randrange(4))
    ]
    reports = [hostile_relay.report(n) for n in range(4)]
    packer, head = FramePacker(), pack_head(pack_reports(writer, reports), 5)
    packed = [packer.pack_frame(picture) for picture in taken]
    frames = [message for message in packed if message is not None]
    whole = pack_file(number, [*head, *frames])
    if chance.random() < 0.2:
        return mutate(whole, chance)
    body = b"".join(_damage_some(whole[HEAD.size :], chance))
    summed = zlib.crc32(number.to_bytes(8, "little") + len(body).to_bytes(4, "little") + body)
    return HEAD.pack(b"DSEG", 1, 0, number, len(body), summed) + body


def _damage_some(body: bytes, chance: random.Random) -> list[bytes]:
    splitter = framing.MessageSplitter()
    splitter.feed(body)
    parts: list[Message] = []
    while (message := splitter.next_message()) is not None:
        parts.append(message)
    return [
        hostile_relay.spoilt(part, chance) if chance.random() < 0.4 else framing.pack_message(part)
        for part in parts
    ]


def files(chance: random.Random) -> Visit:
    """Read watch requests damaged by a disk or another user."""
    request = {"v": 1, "counter": 9, "fps": 15.0, "wanted": {"slot-0": [1, 2]}}
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        for _ in range(LENGTH // 4):
            folder = Path(name)
            (folder / "wanted.json").write_bytes(changed(json.dumps(request).encode(), chance))
            read_watch_request(folder)
    return Visit(LENGTH // 4, 0)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - private folders in it


def spoilt_streams(chance: random.Random) -> Visit:
    """Give well-formed messages, cut and damaged anywhere, to the splitter."""
    splitter, count = framing.MessageSplitter(), 0
    with suppress(ProtocolError):
        while count < LENGTH:
            count += 1
            wire = framing.pack_message(hostile_relay.relay_says(chance))
            splitter.feed(mutate(wire, chance) if chance.random() < 0.1 else wire)
            while splitter.next_message() is not None:
                pass
        return Visit(count, 0)
    return Visit(count, 1)
