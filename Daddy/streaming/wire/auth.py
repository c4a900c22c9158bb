"""Pure: who may send and who may watch: a shared token, proved by both sides, never sent.

Both sides know the token; each proves it with an HMAC over both greetings, so that neither a
stranger who listens on the port of a shared login node nor one who connects to it gets anything,
and a recorded handshake is worth nothing. Every message after that carries a MAC under a session
key of its own direction: whoever relays a finished handshake can neither add nor change a byte.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.streaming.wire.protocol import MAC_BYTES, ProtocolError, Reason

TOKEN_BYTES = 32
MAX_TOKENS = 16
NONCE_BYTES = 16
_DOMAIN = b"daddy-stream-1 "
_OPENING = "daddy-stream-1 open "
_COUNTER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Token:
    """A secret of ``TOKEN_BYTES`` random bytes and whose it is."""

    secret: bytes
    label: str = ""

    @property
    def key_id(self) -> str:
        """Eight hexadecimal digits that name the token without telling it."""
        return hashlib.sha256(_DOMAIN + b"key-id " + self.secret).hexdigest()[:8]

    def line(self) -> str:
        """The token as it stands in a token file."""
        return f"{self.secret.hex()} {self.label}".rstrip()

    def __repr__(self) -> str:
        """Never the secret: tokens must not reach a log."""
        return f"Token({self.key_id} {self.label!r})"


def parse_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a token file: one a line, 64 hexadecimal digits and a label; ``#`` comments.

    ValueError naming the line (never its content) when one is something else.
    """
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split(maxsplit=1)
        if words:
            tokens.append(_parse_token(number, words))
    return tuple(tokens[:MAX_TOKENS])


def _parse_token(number: int, words: list[str]) -> Token:
    try:
        secret = bytes.fromhex(words[0])
    except ValueError:
        secret = b""
    if len(secret) != TOKEN_BYTES:
        raise ValueError(f"line {number} is not {2 * TOKEN_BYTES} hexadecimal digits")
    return Token(secret, words[1].strip() if len(words) > 1 else "")


def copy_line(login: str) -> str:
    """What to type on the laptop, once, so that it knows the login node's token too."""
    return f"ssh {login} cat .config/daddy/stream.token >> ~/.config/daddy/stream.token"


def opening_line(token: Token) -> str:
    """What a relay that a viewer's own ssh has started says first: a token for this session.

    ssh has proved both ends; whoever can read this line could read the account's token files.
    """
    return f"{_OPENING}{token.secret.hex()}"


def find_opening(data: bytes) -> tuple[Token, bytes] | None:
    """The token of the opening line and what follows it; None while there is no such line.

    What stands before it, such as a login's greeting, is passed over.
    """
    _, mark, rest = data.partition(_OPENING.encode())
    line, newline, after = rest.partition(b"\n")
    if not mark or not newline:
        return None
    try:
        secret = bytes.fromhex(line.decode("ascii"))
    except ValueError:
        return None
    return (Token(secret, "connect"), after) if len(secret) == TOKEN_BYTES else None


def common_token(mine: Sequence[Token], key_ids: Sequence[str]) -> Token | None:
    """The first of the other side's key ids that we know too."""
    known = {token.key_id: token for token in mine}
    return next((known[key_id] for key_id in key_ids if key_id in known), None)


def transcript(relay_hello: bytes, viewer_hello: bytes) -> bytes:
    """A digest of both greetings exactly as they travelled: what proofs and keys are bound to."""
    digest = hashlib.sha256(_DOMAIN)
    for hello in (relay_hello, viewer_hello):
        digest.update(len(hello).to_bytes(4, "little") + hello)
    return digest.digest()


def proof(token: Token, role: str, bound_to: bytes) -> bytes:
    """What ``role`` sends to prove that it knows the token; 32 bytes."""
    return _hmac(token.secret, _DOMAIN + b"auth " + role.encode() + b" " + bound_to)


def check_proof(token: Token, role: str, bound_to: bytes, given: bytes) -> None:
    """Compare in constant time; ProtocolError when ``given`` is not ``role``'s proof."""
    if not hmac.compare_digest(proof(token, role, bound_to), given):
        raise ProtocolError(f"the {role} could not prove the token", Reason.REFUSED)


def session_key(token: Token, sender: str, bound_to: bytes) -> bytes:
    """The key of everything that ``sender`` sends in this session."""
    return _hmac(token.secret, _DOMAIN + b"key " + sender.encode() + b" " + bound_to)


class Mac:
    """MACs of one direction. The message's number goes in but does not travel: both sides count,
    so that a message that is dropped, repeated or swapped does not fit.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next(self, message: bytes) -> bytes:
        """The MAC of the next message (header and body); 16 bytes."""
        number = _COUNTER.pack(self._number)
        self._number += 1
        return _hmac(self._key, number + message)[:MAC_BYTES]

    def check(self, message: bytes, given: bytes) -> None:
        """ProtocolError when ``given`` is not the MAC of the next message."""
        if not hmac.compare_digest(self.next(message), given):
            raise ProtocolError("a message's MAC does not fit", Reason.REFUSED)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
