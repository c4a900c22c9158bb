"""Names of the scripted helps: what may be said in a configuration, and who may use whose work."""

import pytest

from Daddy.core.assist_compatibility import (
    ASSIST_NAMES,
    PEER_ASSISTS,
    from_bits,
    missing_assists,
    parse_assists,
    to_bits,
)
from Daddy.core.errors import ConfigError
from Daddy.core.load_config import config_to_json, load_config


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("none", []),
        ("", []),
        ([], []),
        ("peers", list(PEER_ASSISTS)),
        (["peers", "no_wild"], list(ASSIST_NAMES)),
        ("flute, flash", ["flash", "flute"]),
        (["flute", "flash", "flute"], ["flash", "flute"]),
        ("no_wild", ["no_wild"]),
    ],
)
def test_none_peers_and_names_are_understood(said: object, meant: list[str]) -> None:
    assert parse_assists(said) == meant


def test_the_peers_leave_wild_creatures_in_the_game() -> None:
    assert set(ASSIST_NAMES) - set(PEER_ASSISTS) == {"no_wild"}


@pytest.mark.parametrize("said", ["flsh", ["money", "flsh"]])
def test_an_unknown_name_is_refused_with_the_nearest(said: object) -> None:
    with pytest.raises(ValueError, match=r"no assist 'flsh'; the nearest is flash"):
        parse_assists(said)


@pytest.mark.parametrize("said", [3, None, True])
def test_what_is_no_list_of_names_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="neither none, nor peers"):
        parse_assists(said)


def test_the_same_assists_are_the_same_configuration_and_others_another() -> None:
    def identity(said: object) -> bytes:
        return config_to_json(load_config(overrides={"training.assists": said}))

    assert load_config().training.assists == []
    assert identity("none") == identity([]) == config_to_json(load_config())
    assert identity("flute,flash") == identity(["flash", "flute"])
    assert (
        len({identity([name]) for name in ASSIST_NAMES} | {identity("none")})
        == len(ASSIST_NAMES) + 1
    )


def test_the_environment_can_say_them_too() -> None:
    environ = {"DADDY_TRAINING__ASSISTS": "flash,money"}
    assert load_config(environ=environ).training.assists == ["money", "flash"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training.assists": ["flsh"]}, "training.assists: there is no assist 'flsh'; the neare"),
        ({"training.assists": "peers", "training.workload": "cartpole"}, "has no assists"),
    ],
)
def test_a_wrong_setting_is_an_error_of_the_configuration(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(overrides=settings)


def test_what_was_made_with_more_than_we_use_is_strange() -> None:
    assert missing_assists(("flute", "flash"), ("flute",)) == "flash"
    assert missing_assists(("no_wild", "flash"), ()) == "flash, no_wild"
    assert missing_assists((), ("flash",)) == missing_assists(("flash",), ("flash", "money")) == ""


def test_names_survive_as_a_number() -> None:
    assert from_bits(to_bits(("flash", "no_wild"))) == ("flash", "no_wild")
    assert from_bits(to_bits(ASSIST_NAMES)) == ASSIST_NAMES
    assert to_bits(()) == 0
    assert to_bits(ASSIST_NAMES) < 1 << 24
