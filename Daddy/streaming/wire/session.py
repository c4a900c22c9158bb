"""Pure: one side of a connection, without the socket: greeting, proofs, then sealed messages.

The order is fixed: relay HELLO, viewer HELLO, relay AUTH, viewer AUTH. The viewer, on whose port
anyone may knock, says nothing before a well-formed greeting and proves nothing before the relay
has; the relay sends no picture before the viewer has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from Daddy.streaming.wire.auth import (
    MAX_TOKENS,
    Mac,
    Token,
    check_proof,
    common_token,
    proof,
    session_key,
    transcript,
)
from Daddy.streaming.wire.protocol import (
    OLDEST_VERSION,
    VERSION,
    Kind,
    Message,
    ProtocolError,
    Reason,
    Splitter,
    clean,
    from_json,
    pack,
    read_bye,
    to_json,
)

RELAY = "relay"
VIEWER = "viewer"


class Session:
    """Feed it what arrived, send what :meth:`take` returns.

    ``nonce`` must be fresh and random; it is what makes an old recording worthless.
    """

    def __init__(self, role: str, tokens: Sequence[Token], nonce: bytes) -> None:
        self.role = role
        self.other = VIEWER if role == RELAY else RELAY
        self.token: Token | None = None
        self.established = False
        self.version = VERSION
        """The newest that both sides speak, once both have greeted."""
        self._tokens = tuple(tokens)[:MAX_TOKENS]
        self._nonce = nonce
        self._hellos: dict[str, bytes] = {}
        self._splitter = Splitter()
        self._out = bytearray()
        self._seal: Mac | None = None
        self._bound_to = b""
        if role == RELAY:
            self._greet([token.key_id for token in self._tokens])

    def send(self, message: Message) -> None:
        """Queue a message, sealed once the session is established."""
        data = pack(message)
        self._out += data + (self._seal.next(data) if self._seal else b"")

    def take(self) -> bytes:
        """Bytes for the socket."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Message]:
        """Whole messages for the application; ProtocolError ends the connection.

        The handshake's own messages are answered here and not returned.
        """
        self._splitter.feed(data)
        messages = []
        while (message := self._splitter.next()) is not None:
            if message.kind == Kind.BYE and not self.established:
                raise ProtocolError(_farewell(message), Reason(_reason(message)))
            if self.established:
                messages.append(message)
            else:
                self._shake(message)
        return messages

    def _greet(self, key_ids: list[str]) -> None:
        body = to_json(
            {
                "proto": [OLDEST_VERSION, VERSION],
                "role": self.role,
                "nonce": self._nonce.hex(),
                "keys": key_ids,
            }
        )
        self._hellos[self.role] = body
        self.send(Message(Kind.HELLO, body))

    def _shake(self, message: Message) -> None:
        if message.kind == Kind.HELLO and self.other not in self._hellos:
            self._on_hello(message.body)
        elif message.kind == Kind.AUTH and self.token is not None:
            self._on_auth(self.token, message.body)
        else:
            raise ProtocolError(f"kind {message.kind} has no place in the handshake")

    def _on_hello(self, body: bytes) -> None:
        hello = from_json(body)
        self._check_hello(hello)
        offered = [str(one) for one in hello["keys"][:MAX_TOKENS]]
        self._hellos[self.other] = body
        token = common_token(self._tokens, offered)
        if token is None:
            raise ProtocolError(self._no_token(offered), Reason.NO_COMMON_TOKEN)
        self.token = token
        if self.role == VIEWER:
            self._greet([token.key_id])
        self._bound_to = transcript(self._hellos[RELAY], self._hellos[VIEWER])
        if self.role == RELAY:
            self.send(Message(Kind.AUTH, proof(token, RELAY, self._bound_to)))

    def _check_hello(self, hello: dict[str, Any]) -> None:
        if hello.get("role") != self.other or not isinstance(hello.get("keys"), list):
            raise ProtocolError(f"this is no greeting of a {self.other}")
        low, high = _versions(hello.get("proto"))
        if max(low, OLDEST_VERSION) > min(high, VERSION):
            raise ProtocolError(
                f"the {self.role} speaks stream versions {OLDEST_VERSION}-{VERSION}, "
                f"the {self.other} {low}-{high}",
                Reason.VERSION,
            )
        self.version = min(high, VERSION)

    def _no_token(self, offered: list[str]) -> str:
        mine = " ".join(token.key_id for token in self._tokens) or "none"
        theirs = " ".join(clean(one, 8) for one in offered) or "none"
        return f"no token in common: {self.role} has {mine}, {self.other} has {theirs}"

    def _on_auth(self, token: Token, given: bytes) -> None:
        check_proof(token, self.other, self._bound_to, given)
        if self.role == VIEWER:
            self.send(Message(Kind.AUTH, proof(token, VIEWER, self._bound_to)))
        self._seal = Mac(session_key(token, self.role, self._bound_to))
        self._splitter.seal(Mac(session_key(token, self.other, self._bound_to)).check)
        self.established = True


def _versions(proto: object) -> tuple[int, int]:
    """Oldest and newest version that the other side speaks."""
    if isinstance(proto, list) and len(proto) == 2:  # noqa: PLR2004 - a range has two ends
        low, high = proto
        if isinstance(low, int) and isinstance(high, int):
            return low, high
    raise ProtocolError("a greeting's versions are no two numbers")


def _farewell(message: Message) -> str:
    return read_bye(message.body)[1] or "the other side closed"


def _reason(message: Message) -> int:
    code = read_bye(message.body)[0]
    return code if code in set(Reason) else int(Reason.MALFORMED)
