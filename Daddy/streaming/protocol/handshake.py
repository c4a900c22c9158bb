"""Does the handshake and the MACs of a connection, and reads the token files of both sides.

Both sides know a token. Each proves this with an HMAC over both greetings and never sends the
token, so another user at either end of a login node's port learns nothing, and a recorded handshake
cannot be replayed. Every later message carries a MAC under a session key of its direction. The
order is fixed: relay HELLO, viewer HELLO, relay AUTH, viewer AUTH.

``~/.config/daddy/stream.token``, mode 0600, holds one token a line: a laptop may know several
clusters, and a run several friends. Removing a line revokes its token for new connections.
"""

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
    Message,
    MessageKind,
    MessageSplitter,
    ProtocolError,
    Reason,
    clean_text,
    pack_json,
    pack_message,
    read_bye,
    unpack_json,
)

TOKEN_BYTES = 32
MAX_TOKENS = 16
NONCE_BYTES = 16
_DOMAIN = b"daddy-stream-1 "
_OPENING = "daddy-stream-1 open "
_COUNTER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Token:
    """Holds a secret of ``TOKEN_BYTES`` random bytes."""

    secret: bytes = field(repr=False)
    """Left out of repr, so that no token reaches a log."""

    @property
    def key_id(self) -> str:
        """Eight hexadecimal digits that identify the token without revealing it."""
        return hashlib.sha256(_DOMAIN + b"key-id " + self.secret).hexdigest()[:8]


def parse_tokens(text: str) -> tuple[Token, ...]:
    """Return tokens, one a line: 64 hex digits, a name. ValueError names a bad line by number."""
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        digits, *_ = line.split("#")[0].split(maxsplit=1) or [""]
        if digits:
            if (secret := _secret(digits)) is None:
                raise ValueError(f"line {number} is not {2 * TOKEN_BYTES} hexadecimal digits")
            tokens.append(Token(secret))
    return tuple(tokens[:MAX_TOKENS])


def _secret(digits: str) -> bytes | None:
    with contextlib.suppress(ValueError):
        secret = bytes.fromhex(digits)
        return secret if len(secret) == TOKEN_BYTES else None
    return None


def opening_line(token: Token) -> str:
    """Return the first line of a relay that a viewer's ssh started: a token for this session."""
    return f"{_OPENING}{token.secret.hex()}"


def find_opening(data: bytes) -> tuple[Token, bytes] | None:
    """Return the opening line's token and the bytes after the line; None before it is there."""
    _, mark, rest = data.partition(_OPENING.encode())
    line, newline, after = rest.partition(b"\n")
    secret = _secret(line.decode("ascii", "replace")) if mark and newline else None
    return None if secret is None else (Token(secret), after)


def hash_transcript(relay_hello: bytes, viewer_hello: bytes) -> bytes:
    """Return the SHA-256 (32 bytes) of both greetings as sent, for proofs and keys."""
    digest = hashlib.sha256(_DOMAIN)
    for hello in (relay_hello, viewer_hello):
        digest.update(len(hello).to_bytes(4, "little") + hello)
    return digest.digest()


def make_proof(token: Token, role: str, transcript_digest: bytes) -> bytes:
    """Return the proof that the side in ``role`` knows the token; 32 bytes."""
    return _hmac(token.secret, _DOMAIN + b"auth " + role.encode() + b" " + transcript_digest)


def derive_key(token: Token, sender: str, transcript_digest: bytes) -> bytes:
    """Return the MAC key of the messages that ``sender`` sends in this session; 32 bytes."""
    return _hmac(token.secret, _DOMAIN + b"key " + sender.encode() + b" " + transcript_digest)


class Mac:
    """Makes and verifies the MACs of one direction. Each MAC covers the message's number, which
    both sides count and neither sends, so a dropped, repeated or reordered message fails.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next_mac(self, message: bytes) -> bytes:
        """Return the MAC of the next message (header and body); 16 bytes."""
        number = _COUNTER.pack(self._number)
        self._number += 1
        return _hmac(self._key, number + message)[:MAC_BYTES]

    def verify(self, message: bytes, given: bytes) -> None:
        """Raise ProtocolError unless ``given`` is the MAC of the next message."""
        if not hmac.compare_digest(self.next_mac(message), given):
            raise ProtocolError("a message has a wrong MAC", Reason.REFUSED)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


RELAY = "relay"
VIEWER = "viewer"


class StreamSession:
    """Runs one side of the protocol, without its socket; ``nonce`` must be new and random."""

    def __init__(self, role: str, tokens: Sequence[Token], nonce: bytes) -> None:
        self.role = role
        self.other = VIEWER if role == RELAY else RELAY
        self.token: Token | None = None
        self.established = False
        self._tokens = tuple(tokens)[:MAX_TOKENS]
        self._nonce = nonce
        self._hellos: dict[str, bytes] = {}
        self._splitter = MessageSplitter()
        self._out = bytearray()
        self._outgoing_mac: Mac | None = None
        self._transcript = b""
        if role == RELAY:
            self._send_hello([token.key_id for token in self._tokens])

    def send(self, message: Message) -> None:
        """Queue a message, with a MAC once the handshake is done."""
        data = pack_message(message)
        self._out += data + (self._outgoing_mac.next_mac(data) if self._outgoing_mac else b"")

    def take_output(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Message]:
        """Handle the handshake; return the messages after it. Raise ProtocolError."""
        self._splitter.feed(data)
        messages = []
        while (message := self._splitter.next_message()) is not None:
            if self.established:
                messages.append(message)
            elif message.kind == MessageKind.BYE:
                code, text = read_bye(message.body)
                reason = Reason(code) if code in set(Reason) else Reason.MALFORMED
                raise ProtocolError(text or "the other side closed", reason)
            elif message.kind == MessageKind.HELLO and self.other not in self._hellos:
                self._on_hello(message.body)
            elif message.kind == MessageKind.AUTH and self.token is not None:
                self._on_auth(self.token, message.body)
            else:
                raise ProtocolError(f"a message of kind {message.kind} came during the handshake")
        return messages

    def _send_hello(self, key_ids: list[str]) -> None:
        facts = {"proto": [VERSION, VERSION], "role": self.role}
        body = pack_json({**facts, "nonce": self._nonce.hex(), "keys": key_ids})
        self._hellos[self.role] = body
        self.send(Message(MessageKind.HELLO, body))

    def _on_hello(self, body: bytes) -> None:
        hello = unpack_json(body)
        self._check_hello(hello)
        offered = [str(key_id) for key_id in hello["keys"][:MAX_TOKENS]]
        self._hellos[self.other] = body
        ours = {token.key_id: token for token in self._tokens}
        token = next((ours[key_id] for key_id in offered if key_id in ours), None)
        if token is None:
            names, theirs = " ".join(ours), " ".join(clean_text(key_id, 8) for key_id in offered)
            raise ProtocolError(
                f"no token in common: {self.role} has {names or 'none'}, "
                f"{self.other} has {theirs or 'none'}",
                Reason.NO_COMMON_TOKEN,
            )
        self.token = token
        if self.role == VIEWER:
            self._send_hello([token.key_id])
        self._transcript = hash_transcript(self._hellos[RELAY], self._hellos[VIEWER])
        if self.role == RELAY:
            self.send(Message(MessageKind.AUTH, make_proof(token, RELAY, self._transcript)))

    def _check_hello(self, hello: dict[str, Any]) -> None:
        match hello:
            case {"role": self.other, "keys": [*_], "proto": [int(low), int(high)]}:
                pass
            case _:
                raise ProtocolError(f"the other side sent no greeting of a {self.other}")
        if not low <= VERSION <= high:
            raise ProtocolError(
                f"the {self.role} speaks stream version {VERSION}, the {self.other} {low}-{high}",
                Reason.VERSION,
            )

    def _on_auth(self, token: Token, given: bytes) -> None:
        if not hmac.compare_digest(make_proof(token, self.other, self._transcript), given):
            raise ProtocolError(f"the {self.other} could not prove the token", Reason.REFUSED)
        if self.role == VIEWER:
            self.send(Message(MessageKind.AUTH, make_proof(token, VIEWER, self._transcript)))
        self._outgoing_mac = Mac(derive_key(token, self.role, self._transcript))
        self._splitter.verify_with(Mac(derive_key(token, self.other, self._transcript)).verify)
        self.established = True


GREETING_S = 3.0
SILENT_S = 15.0
_WOULD_BLOCK = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOTCONN}


class SessionSocket:
    """Runs a session over a socket; no call blocks."""

    def __init__(self, sock: socket.socket, role: str, tokens: Sequence[Token], now: float) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.session = StreamSession(role, tokens, secrets.token_bytes(NONCE_BYTES))
        self.opened_at = self.received_at = now
        self.out = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self, now: float, reads: int = 1) -> list[Message]:
        """Return the messages of ``reads`` reads. ProtocolError; OSError, also if closed."""
        messages: list[Message] = []
        with _ignore_would_block():
            for _ in range(reads):
                if not (data := self.socket.recv(READ_BYTES)):
                    raise ConnectionResetError
                self.received_at = now
                messages += self.session.receive(data)
        return messages

    def flush(self) -> None:
        """Send as many queued bytes as the kernel takes. Raise OSError."""
        self.out += self.session.take_output()
        with _ignore_would_block():
            while self.out:
                del self.out[: self.socket.send(self.out)]

    def is_overdue(self, now: float, greeting_s: float = GREETING_S) -> bool:
        """Return True if the proof is late, or nothing was received for 15 seconds."""
        late = not self.session.established and now - self.opened_at > greeting_s
        return late or now - self.received_at > SILENT_S

    def close(self, last: Message | None = None) -> None:
        """Send the message ``last``, if given, and close the socket."""
        with contextlib.suppress(OSError):
            if last:
                self.session.send(last)
                self.flush()
        self.socket.close()


@contextlib.contextmanager
def _ignore_would_block() -> Iterator[None]:
    """Ignore errors of a socket that has no bytes, no room or no connection yet."""
    try:
        yield
    except OSError as error:
        if error.errno not in _WOULD_BLOCK:
            raise


_FILE_LIMIT = 8192
_PRIVATE = stat.S_IRWXG | stat.S_IRWXO


def home_token(home: Path) -> Path:
    """Return the path of the token file in ``home``."""
    return home / STREAM_TOKEN


def ensure_token(path: Path, label: str) -> None:
    """Create ``path`` with a new token, readable by its owner only, unless ``path`` exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = f"{secrets.token_hex(TOKEN_BYTES)} {label}\n"
        create_exclusive(path, line.encode(), mode=0o600)


def load_tokens(paths: Iterable[Path]) -> tuple[Token, ...]:
    """Return the tokens of all existing files; FileError if one is damaged or not private."""
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
        fix = "remove that line, or the file: the next start makes a new one"
        raise FileError(f"{path}: {error}", fix) from error
