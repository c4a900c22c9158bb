"""A hostile peer at the other end of a stream's connection, with and without the token."""

import functools
import random
from collections.abc import Callable

from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    HEADER,
    MAC_BYTES,
    UNKNOWN_LIMIT,
    Message,
    MessageKind,
    Reason,
    make_bye,
    pack_json,
    pack_message,
)
from Daddy.streaming.protocol.handshake import (
    RELAY,
    VIEWER,
    Mac,
    StreamSession,
    Token,
    derive_key,
    hash_transcript,
    make_proof,
)
from Daddy.streaming.protocol.messages import (
    FORMAT_TILES,
    FORMAT_TILING,
    Frame,
    Peer,
    Status,
    Subscription,
    pack_ack,
    pack_rows,
    pack_stamps,
    row_from_report,
)
from scripts.soaks.mutate import changed, mutate

TOKEN = Token(bytes(range(32)))
MAKE_RELAY, MAKE_VIEWER = b"r" * 16, b"v" * 16
_STATUS = Status(
    "slim_run", "pokemon_red", "login1", "ssh-R", 8, 123_456, 812.5, 57, 0.4,
    tuple(Peer(f"slot-{n}", f"node{n}", str(4711 + n), 0.5) for n in range(4)),
    {n: f"Fern Hollow {n}" for n in range(12)},
)  # fmt: skip


@functools.lru_cache(maxsize=64)
def picture(number: int) -> bytes:
    """Return a picture of a few tiles, similar to the game's."""
    chance = random.Random(number)
    tiles = [chance.randbytes(2) * 20 for _ in range(8)]
    return b"".join(chance.choice(tiles) for _ in range(SCREEN_BYTES // 40))


def report(agent: int) -> AgentReport:
    """Return a report of one agent."""
    return AgentReport(agent, agent % 9, 3, 1.5 * agent, agent, agent % 12, "Fern Hollow", 7, 1000)


@functools.lru_cache(maxsize=512)
def _frame(number: int, base: int, form: int = FORMAT_TILES) -> bytes:
    facts = (number, base, 100 * number, 66 * number, 1)
    if form == FORMAT_TILES:
        data = frame_codec.encode(picture(number), picture(base) if base else None)
        return Frame(*facts, data).to_body()
    shown = [
        frame_codec.split_tiles(frame_codec.to_tiles(picture(each))) for each in (base, number)
    ]
    return Frame(*facts, frame_codec.deflate_tiled(shown[1], shown[:1]), form).to_body()


def prepare() -> None:
    """Deflate every picture once, so that this work is not counted as the tested side's."""
    for number in range(1, 40):
        for base in (0, max(0, number - 1)):
            _frame(number, base)
        _frame(number, max(1, number - 1), FORMAT_TILING)


def relay_says(chance: random.Random) -> Message:
    """Return a well-formed message of a relay."""
    number = chance.randrange(1, 40)
    rows = [row_from_report(report(agent)) for agent in range(chance.randrange(12))]
    return chance.choice((
        Message(MessageKind.STATUS, _STATUS.to_body()),
        Message(MessageKind.TELEM, _featured(pack_rows(rows), chance)),
        Message(MessageKind.FRAME, _frame(number, chance.choice((0, 0, max(0, number - 1)))), 1),
        Message(MessageKind.FRAME, _frame(number, max(1, number - 1), FORMAT_TILING), 1),
        Message(MessageKind.FRAME, _frame(number, 0), chance.randrange(0xFFFF)),
        Message(MessageKind.NOTE, b"slot-0/3 won badge 4"),
        Message(MessageKind.PING, pack_stamps(chance.randrange(2**40))),
        make_bye(Reason.DONE, "the relay ends"),
    ))  # fmt: skip


def _featured(rows: bytes, chance: random.Random) -> bytes:
    """Return rows with stream numbers and places, which decide what is drawn."""
    changed_rows = bytearray(rows)
    for at in range(0, len(changed_rows), 32):
        changed_rows[at : at + 2] = chance.randrange(4).to_bytes(2, "little")
        changed_rows[at + 6 : at + 8] = chance.choice((0, 1, 2, 0xFFFF)).to_bytes(2, "little")
    return bytes(changed_rows)


def viewer_says(chance: random.Random) -> Message:
    """Return a well-formed message of a viewer."""
    stream = chance.randrange(4)
    return chance.choice((
        Message(MessageKind.SUBSCRIBE, Subscription(chance.randrange(1, 17), 15.0).to_body()),
        Message(MessageKind.ACK, pack_ack(chance.randrange(50)), stream),
        Message(MessageKind.NEED_KEY, b"", stream),
        Message(MessageKind.PONG, pack_stamps(chance.randrange(2**40), 5)),
        make_bye(Reason.DONE, "the viewer was closed"),
    ))  # fmt: skip


def spoilt(message: Message, chance: random.Random) -> bytes:
    """Return header and damaged body with a true length; now and then a damaged header too."""
    body = changed(message.body, chance)
    kind = chance.choice((message.kind, chance.randrange(256))) if chance.random() < 0.1 else None
    data = HEADER.pack(message.kind if kind is None else kind, 0, message.stream, len(body)) + body
    return mutate(data[: HEADER.size], chance) + body if chance.random() < 0.05 else data


def fits(data: bytes) -> bool:
    """Return True if the header's length is allowed and true; any other ends a connection."""
    if len(data) < HEADER.size:
        return False
    kind, _, _, length = HEADER.unpack_from(data)
    known = kind in set(MessageKind)
    limit = BODY_LIMIT[MessageKind(kind)] if known else UNKNOWN_LIMIT
    return bool(length <= limit and len(data) == HEADER.size + length)


def authenticated(victim: str) -> tuple[StreamSession, Callable[[bytes], bytes]]:
    """Return an established session in the role of ``victim``, whose peer knows the token, and a
    function that appends that peer's MAC to any bytes.
    """
    role = VIEWER if victim == RELAY else RELAY
    session = StreamSession(victim, [TOKEN], MAKE_RELAY if victim == RELAY else MAKE_VIEWER)
    greeting = hello(role)
    first = session.take_output()
    session.receive(greeting)
    answer = first + session.take_output()
    length = HEADER.unpack_from(answer)[3]
    theirs = answer[HEADER.size : HEADER.size + length]
    ours = greeting[HEADER.size :]
    digest = hash_transcript(theirs, ours) if victim == RELAY else hash_transcript(ours, theirs)
    session.receive(pack_message(Message(MessageKind.AUTH, make_proof(TOKEN, role, digest))))
    session.take_output()
    mac = Mac(derive_key(TOKEN, role, digest))
    return session, lambda data: data + mac.next_mac(data)[:MAC_BYTES]


def hello(role: str) -> bytes:
    """Return the HELLO of a role."""
    facts = {"proto": [2, 2], "role": role, "nonce": "ab" * 16, "keys": [TOKEN.key_id]}
    return pack_message(Message(MessageKind.HELLO, pack_json(facts)))


def greeting_stream(role: str, chance: random.Random) -> bytes:
    """Return bytes that a peer without the token may send: a HELLO, a false proof, noise."""
    greeting = Message(MessageKind.HELLO, hello(role)[HEADER.size :])
    parts = [
        spoilt(greeting, chance),
        pack_message(Message(MessageKind.AUTH, chance.randbytes(32))),
    ]
    parts += [spoilt(relay_says(chance), chance), chance.randbytes(chance.randrange(200))]
    if chance.random() < 0.5:
        parts[0] = pack_message(greeting)
    wire = b"".join(parts[: chance.randrange(1, 5)])
    return mutate(wire, chance) if chance.random() < 0.5 else wire
