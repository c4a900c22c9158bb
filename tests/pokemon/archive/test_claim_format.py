import base64
import json
import zlib
from typing import Any

import pytest

from Daddy.core.errors import FileError
from Daddy.pokemon.archive.claim_format import (
    MAX_INPUTS,
    Claim,
    InputLog,
    decode_claim,
    encode_claim,
)

CLAIM = Claim("a" * 64, {}, bytes([0, 6, 4] * 50), frozenset({"met_elder", "at_home"}))


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_a_claim_comes_back_as_it_was_sent() -> None:
    assert decode_claim(encode_claim(CLAIM)) == CLAIM
    start = {"bit_generator": "PCG64", "state": {"state": 1 << 100, "inc": 3}}
    from_the_start = Claim("", start, b"\0", frozenset())
    assert decode_claim(encode_claim(from_the_start)) == from_the_start


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"parent": "../../etc/passwd"},
        {"parent": 7},
        {"inputs": packed(bytes([7]))},
        {"inputs": packed(bytes(MAX_INPUTS + 1))},
        {"inputs": packed(bytes(1 << 26))},
        {"inputs": packed(b"\0" * 9)[:12]},
        {"inputs": "no base64!"},
        {"held": "met_elder"},
        {"held": ["x"] * 401},
        {"held": ["a\nb"]},
        {"start": [1]},
        {"start": {"seed": "9" * 2000}},
    ],
)
def test_a_hostile_claim_is_refused(change: dict[str, Any]) -> None:
    facts = {**json.loads(encode_claim(CLAIM)), **change}
    with pytest.raises(FileError, match="cannot be read"):
        decode_claim(json.dumps(facts).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b" " * (2 << 20)])
def test_what_is_no_claim_is_refused(data: bytes) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        decode_claim(data)


def test_a_log_grows_with_every_button_until_it_is_too_long_to_be_played_again() -> None:
    log: InputLog | None = InputLog("a" * 64)
    for action in (0, 6, 4):
        assert log is not None
        log = log.append_key(action)
    assert log is not None
    assert log.make_claim({"met_elder"}) == Claim("a" * 64, {}, b"\0\6\4", frozenset({"met_elder"}))
    log.inputs.extend(bytes(MAX_INPUTS))
    assert log.append_key(0) is None
