"""Greeting, proofs and seals of a connection, and the token files that both sides keep.

Both sides know a token; each proves it with an HMAC over both greetings and sends it never, so that
a stranger at either end of a port of a shared login node gets nothing and a recorded handshake is
worth nothing. Every later message carries a MAC under a session key of its own direction. The order
is fixed: relay HELLO, viewer HELLO, relay AUTH, viewer AUTH.

``~/.config/daddy/stream.token``, mode 0600, holds one token a line: a laptop may know several
clusters and a run several friends. Removing a line revokes it; the file is read for every
connection.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import create_exclusive, read_bounded
from Daddy.core.errors import FileError
from Daddy.core.run_paths import STREAM_TOKEN
from Daddy.streaming.protocol.framing import (
    MAC_BYTES,
    READ_BYTES,
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

TOKEN_BYTES = 32
MAX_TOKENS = 16
NONCE_BYTES = 16
_DOMAIN = b"daddy-stream-1 "
_OPENING = "daddy-stream-1 open "
_COUNTER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Token:
    """A secret of ``TOKEN_BYTES`` random bytes and whose it is."""

    secret: bytes = field(repr=False)
    """Never shown: tokens must not reach a log."""
    label: str = ""

    @property
    def key_id(self) -> str:
        """Eight hexadecimal digits that name the token without telling it."""
        return hashlib.sha256(_DOMAIN + b"key-id " + self.secret).hexdigest()[:8]

    def line(self) -> str:
        return f"{self.secret.hex()} {self.label}".rstrip()


def parse_tokens(text: str) -> tuple[Token, ...]:
    """Tokens, one a line: 64 hex digits and a label; ValueError names the line, not its content."""
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        digits, *label = line.split("#")[0].split(maxsplit=1) or [""]
        if digits:
            if (secret := _secret(digits)) is None:
                raise ValueError(f"line {number} is not {2 * TOKEN_BYTES} hexadecimal digits")
            tokens.append(Token(secret, "".join(label).strip()))
    return tuple(tokens[:MAX_TOKENS])


def _secret(digits: str) -> bytes | None:
    with contextlib.suppress(ValueError):
        secret = bytes.fromhex(digits)
        return secret if len(secret) == TOKEN_BYTES else None
    return None


def opening_line(token: Token) -> str:
    """The first line of a relay that a viewer's own ssh has started: a token for this session."""
    return f"{_OPENING}{token.secret.hex()}"


def find_opening(data: bytes) -> tuple[Token, bytes] | None:
    """The token of the opening line and the bytes after it; None while there is no such line."""
    _, mark, rest = data.partition(_OPENING.encode())
    line, newline, after = rest.partition(b"\n")
    secret = _secret(line.decode("ascii", "replace")) if mark and newline else None
    return None if secret is None else (Token(secret, "connect"), after)


def transcript(relay_hello: bytes, viewer_hello: bytes) -> bytes:
    """A digest of both greetings exactly as they travelled: what proofs and keys are bound to."""
    digest = hashlib.sha256(_DOMAIN)
    for hello in (relay_hello, viewer_hello):
        digest.update(len(hello).to_bytes(4, "little") + hello)
    return digest.digest()


def proof(token: Token, role: str, bound_to: bytes) -> bytes:
    """The proof of ``role`` that it knows the token; 32 bytes."""
    return _hmac(token.secret, _DOMAIN + b"auth " + role.encode() + b" " + bound_to)


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


RELAY = "relay"
VIEWER = "viewer"


class Session:
    """One side of a connection without the socket; ``nonce`` must be fresh and random."""

    def __init__(self, role: str, tokens: Sequence[Token], nonce: bytes) -> None:
        self.role = role
        self.other = VIEWER if role == RELAY else RELAY
        self.token: Token | None = None
        self.established = False
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
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Message]:
        """Whole messages after the handshake, which is answered here; ProtocolError ends it."""
        self._splitter.feed(data)
        messages = []
        while (message := self._splitter.next()) is not None:
            if self.established:
                messages.append(message)
            elif message.kind == Kind.BYE:
                code, text = read_bye(message.body)
                reason = Reason(code) if code in set(Reason) else Reason.MALFORMED
                raise ProtocolError(text or "the other side closed", reason)
            elif message.kind == Kind.HELLO and self.other not in self._hellos:
                self._on_hello(message.body)
            elif message.kind == Kind.AUTH and self.token is not None:
                self._on_auth(self.token, message.body)
            else:
                raise ProtocolError(f"kind {message.kind} has no place in the handshake")
        return messages

    def _greet(self, key_ids: list[str]) -> None:
        facts = {"proto": [VERSION, VERSION], "role": self.role}
        body = to_json({**facts, "nonce": self._nonce.hex(), "keys": key_ids})
        self._hellos[self.role] = body
        self.send(Message(Kind.HELLO, body))

    def _on_hello(self, body: bytes) -> None:
        hello = from_json(body)
        self._check_hello(hello)
        offered = [str(one) for one in hello["keys"][:MAX_TOKENS]]
        self._hellos[self.other] = body
        known = {token.key_id: token for token in self._tokens}
        token = next((known[key_id] for key_id in offered if key_id in known), None)
        if token is None:
            mine, theirs = " ".join(known), " ".join(clean(one, 8) for one in offered)
            raise ProtocolError(
                f"no token in common: {self.role} has {mine or 'none'}, "
                f"{self.other} has {theirs or 'none'}",
                Reason.NO_COMMON_TOKEN,
            )
        self.token = token
        if self.role == VIEWER:
            self._greet([token.key_id])
        self._bound_to = transcript(self._hellos[RELAY], self._hellos[VIEWER])
        if self.role == RELAY:
            self.send(Message(Kind.AUTH, proof(token, RELAY, self._bound_to)))

    def _check_hello(self, hello: dict[str, Any]) -> None:
        match hello:
            case {"role": self.other, "keys": [*_], "proto": [int(low), int(high)]}:
                pass
            case _:
                raise ProtocolError(f"this is no greeting of a {self.other}")
        if not low <= VERSION <= high:
            raise ProtocolError(
                f"the {self.role} speaks stream version {VERSION}, the {self.other} {low}-{high}",
                Reason.VERSION,
            )

    def _on_auth(self, token: Token, given: bytes) -> None:
        if not hmac.compare_digest(proof(token, self.other, self._bound_to), given):
            raise ProtocolError(f"the {self.other} could not prove the token", Reason.REFUSED)
        if self.role == VIEWER:
            self.send(Message(Kind.AUTH, proof(token, VIEWER, self._bound_to)))
        self._seal = Mac(session_key(token, self.role, self._bound_to))
        self._splitter.seal(Mac(session_key(token, self.other, self._bound_to)).check)
        self.established = True


GREETING_S = 3.0
SILENT_S = 15.0
_NOT_YET = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOTCONN}


class Channel:
    """A session over a socket, which never blocks."""

    def __init__(self, sock: socket.socket, role: str, tokens: Sequence[Token], now: float) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.session = Session(role, tokens, secrets.token_bytes(NONCE_BYTES))
        self.began = self.heard = now
        self.out = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self, now: float, reads: int = 1) -> list[Message]:
        """Messages that so many reads bring. ProtocolError; OSError, also at the other's end."""
        messages: list[Message] = []
        with _passing_over_waits():
            for _ in range(reads):
                if not (data := self.socket.recv(READ_BYTES)):
                    raise ConnectionResetError
                self.heard = now
                messages += self.session.receive(data)
        return messages

    def flush(self) -> None:
        """Hand the kernel what it takes. OSError."""
        self.out += self.session.take()
        with _passing_over_waits():
            while self.out:
                del self.out[: self.socket.send(self.out)]

    def is_overdue(self, now: float, greeting_s: float = GREETING_S) -> bool:
        """Too late with its proof, or silent for too long."""
        late = not self.session.established and now - self.began > greeting_s
        return late or now - self.heard > SILENT_S

    def close(self, last: Message | None = None) -> None:
        """Close, after a last word if there is one."""
        with contextlib.suppress(OSError):
            if last:
                self.session.send(last)
                self.flush()
        self.socket.close()


@contextlib.contextmanager
def _passing_over_waits() -> Iterator[None]:
    """Pass over a socket that has no bytes, no room or no connection yet."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_YET:
            raise


_FILE_LIMIT = 8192
_PRIVATE = stat.S_IRWXG | stat.S_IRWXO


def home_token(home: Path) -> Path:
    """The token file of the person whose home this is."""
    return home / STREAM_TOKEN


def ensure_token(path: Path, label: str) -> None:
    """Create ``path`` with a fresh token, readable by its owner alone, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = Token(secrets.token_bytes(TOKEN_BYTES), label)
        create_exclusive(path, f"{token.line()}\n".encode(), mode=0o600)


def load_tokens(paths: Iterable[Path]) -> tuple[Token, ...]:
    """The tokens of all files that exist; FileError when one is damaged or others may read it."""
    return tuple(token for path in paths for token in _load(path))


def _load(path: Path) -> tuple[Token, ...]:
    try:
        data = read_bounded(path, _FILE_LIMIT)
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ()
    if os.name == "posix" and mode & _PRIVATE:
        raise FileError(f"others may read the token file {path}", f"chmod 600 {path}")
    try:
        return parse_tokens(data.decode("ascii"))
    except ValueError as error:
        raise FileError(
            f"{path}: {error}", "remove the line, or the file to get a new one"
        ) from error
