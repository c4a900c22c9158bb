from collections.abc import Callable
from dataclasses import replace

import pytest

from Daddy.core.errors import FileError
from Daddy.pokemon.archive.state_format import Compatibility, Provenance, decode_state, encode_state

KIN = Compatibility("f" * 40, "2.7.0", ("no_wild",))
PROVENANCE = Provenance(
    held=("at_home", "greeted_dad"),
    parent="a" * 64,
    origin="played",
    slot=2,
    step=4096,
    seed=7,
    release="abc123",
    rom_sha1="f" * 40,
    pyboy="2.7.0",
    assists=("no_wild",),
)


def test_a_record_comes_back_with_all_it_says() -> None:
    data = encode_state(PROVENANCE, b"the state")
    assert decode_state(data, KIN, "one") == (PROVENANCE, b"the state")
    assert PROVENANCE.entry("a" * 64).rank == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: b"",
        lambda d: d[:40],
        lambda d: b"x" + d[1:],
        lambda d: d[: -len(b"the state")],
        lambda d: d.replace(b'"step": 4096', b'"step": "1e"'),
        lambda d: d.replace(b'"slot": 2', b'"slut": 2'),
        lambda d: d.replace(b'["at_home", "gre', b'[1, 2345678, "gre'),
        lambda d: d.replace(b'"format": 1', b'"format": 2'),
        lambda d: d[:8] + b"\xff\xff\xff\xff" + d[12:],
    ],
)
def test_a_damaged_record_is_refused_by_name(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(FileError, match="one is damaged"):
        decode_state(damage(encode_state(PROVENANCE, b"the state")), KIN, "one")


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (replace(PROVENANCE, rom_sha1="0" * 40), "rom_sha1 0000"),
        (replace(PROVENANCE, pyboy="2.8.1"), "pyboy 2.8.1, here it is 2.7.0"),
        (replace(PROVENANCE, assists=("no_wild", "flash")), "the assists flash"),
    ],
)
def test_a_state_of_another_kind_of_run_is_refused(theirs: Provenance, said: str) -> None:
    with pytest.raises(FileError, match=said):
        decode_state(encode_state(theirs, b"s"), KIN, "one")


def test_a_run_with_assists_may_load_a_state_without() -> None:
    honest = replace(PROVENANCE, assists=())
    assert decode_state(encode_state(honest, b"s"), KIN, "one")[0] == honest
