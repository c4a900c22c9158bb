"""The news for a browser: only the parts that it lacks, identified by hashes."""

import json
import struct
from dataclasses import replace

from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.protocol.messages import Peer, TelemetryRow
from Daddy.streaming.viewer.agent_trails import Dot, HistorySnapshot, MapView
from Daddy.streaming.viewer.draw_list import THEMES
from Daddy.streaming.viewer.view_model import Panel, Scene, TunnelInfo
from Daddy.streaming.web.web_server import BrowserTags, hash_tag, pack_news, style_json
from tests.streaming.helpers import picture

WAITING = TunnelInfo(9998, "anna@login.example.edu")
ROW = TelemetryRow(1, 0, 3, 1, 2, 14, 5, 1, 12.34, 1, 9000)


def panel(**changes: object) -> Panel:
    usual = Panel("slot-0/3", Peer("slot-0", "node1", "17"), ROW, "Fern Hollow", picture(1), 9, 250,
                  0.4, 0.1, (1.0, 2.5))  # fmt: skip
    return replace(usual, **changes)


def scene(*panels: Panel, **changes: object) -> Scene:
    return replace(Scene(panels, (), "ssh-R", ("old", "new"), "", {}), **changes)


def read(message: bytes) -> tuple[dict[str, object], list[bytes]]:
    (length,) = struct.unpack_from("<I", message)
    rest = message[4 + length :]
    pieces = [rest[at : at + SCREEN_BYTES] for at in range(0, len(rest), SCREEN_BYTES)]
    return json.loads(message[4 : 4 + length]), pieces


def has(head: dict[str, object]) -> BrowserTags:
    return BrowserTags(head["tags"]["facts"], head["tags"]["world"], head["new"])


def test_a_newcomer_gets_everything() -> None:
    message, new = pack_news(scene(panel(), panel(pixels=picture(2))), 2, WAITING, BrowserTags())
    head, pictures = read(message)
    assert new
    assert pictures == [picture(1), picture(2)]
    assert head["new"] == [hash_tag(pixels) for pixels in pictures]
    part = head["facts"]["panels"][0]
    assert (part["score"], part["badges"], part["story_flags"]) == (7, 2, 5)
    assert head["facts"]["notes"] == ["new", "old"]


def test_who_has_it_all_gets_the_ages_alone() -> None:
    head, _ = read(pack_news(scene(panel()), 2, WAITING, BrowserTags())[0])
    message, new = pack_news(scene(panel(age_s=3.0)), 2, WAITING, has(head))
    again, pictures = read(message)
    assert (new, pictures, "facts" in again, "world" in again) == (False, [], False, False)
    assert again["live"] == [[hash_tag(picture(1)), 3.0, 0.1]]


def test_a_picture_that_has_become_stale_is_news_and_one_that_moves_panels_is_not_sent_again() -> (
    None
):
    head, _ = read(pack_news(scene(panel()), 2, WAITING, BrowserTags())[0])
    had = has(head)
    stale, part = pack_news(scene(panel(silent_s=6.0)), 2, WAITING, had)
    assert part
    assert read(stale)[0]["facts"]["panels"][0]["stale"] is True
    moved = scene(panel(pixels=picture(2)), panel())
    assert read(pack_news(moved, 2, WAITING, had)[0])[1] == [picture(2)]


def test_who_moves_on_a_map_is_news_of_the_world_alone() -> None:
    head, _ = read(pack_news(scene(panel()), 2, WAITING, BrowserTags())[0])
    moved = HistorySnapshot((MapView("Fern Hollow", (Dot(4, 5, 1),), (((4, 5),),),
                         ((4, 5, 1.0), (3, 5, 0.33))),), ((12.5, 3.0),))  # fmt: skip
    message, new = pack_news(scene(panel(), history=moved), 2, WAITING, has(head))
    again, pictures = read(message)
    assert (new, pictures, "facts" in again) == (True, [], False)
    assert again["world"]["places"][0] == {
        "name": "Fern Hollow", "dots": [[4, 5, 1]], "trails": [[[4, 5]]],
        "heat": [[4, 5, 1.0], [3, 5, 0.33]],
    }  # fmt: skip
    assert again["world"]["course"] == [[12.5, 3.0]]


def test_two_panels_with_the_same_picture_send_it_once_and_none_is_told_as_none() -> None:
    shown = scene(panel(), panel(name="slot-1/0"), panel(pixels=None))
    head, pictures = read(pack_news(shown, 3, WAITING, BrowserTags())[0])
    assert pictures == [picture(1)]
    assert [name for name, _, _ in head["live"]] == [hash_tag(picture(1)), hash_tag(picture(1)), ""]


def test_whoever_names_things_writes_no_markup() -> None:
    message, _ = pack_news(scene(panel(name="</script><b>&")), 2, WAITING, BrowserTags())
    assert b"<b>" not in message
    assert read(message)[0]["facts"]["panels"][0]["agent"] == "</script><b>&"


def test_a_token_in_trouble_brings_the_line_that_copies_one() -> None:
    part = read(
        pack_news(scene(trouble="no token in common", transport=""), 2, WAITING, BrowserTags())[0]
    )[0]["facts"]
    assert part["copy"][1].startswith("ssh anna@login.example.edu cat ")


def test_the_page_has_the_windows_palettes_and_badges() -> None:
    part = json.loads(style_json())
    assert [theme["name"] for theme in part["themes"]] == [theme.name for theme in THEMES]
    assert part["themes"][0]["shades"][0] == list(THEMES[0].shades[0])
    assert len(set(part["badges"])) == 8
