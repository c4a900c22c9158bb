"""The scene built from messages: a panel is not empty because its agent was replaced."""

from dataclasses import replace

from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.framing import Message, MessageKind
from Daddy.streaming.protocol.messages import (
    Frame,
    TelemetryRow,
    pack_rows,
    pack_stamps,
    row_from_report,
)
from Daddy.streaming.viewer.view_model import STALE_S, RelayState, compose_scene
from tests.streaming.helpers import picture, report


def send_rows(source: RelayState, *rows: TelemetryRow) -> None:
    source.handle_message(Message(MessageKind.TELEM, pack_rows(rows)), 0.0)


def shown(source: RelayState, now: float) -> list[tuple[int, bytes | None]]:
    scene = compose_scene([source], 2, now, (), "", {})
    return [(panel.row.agent, panel.pixels) for panel in scene.panels]


def featured(agent: int, stream: int, place: int = 1) -> TelemetryRow:
    return replace(row_from_report(report(agent)), stream=stream, place=place)


def send(source: RelayState, stream: int, pixels: bytes, now: float) -> None:
    frame = Frame(1, 0, 0, 0, 0, frame_codec.encode(pixels)).to_body()
    answers, _ = source.handle_message(Message(MessageKind.FRAME, frame, stream=stream), now)
    assert [answer.kind for answer in answers] == [MessageKind.ACK]


def test_who_is_replaced_is_shown_until_the_newcomers_first_picture_is_here() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(agent=3, stream=1))
    assert shown(source, 0.0) == [(3, None)]
    send(source, 1, picture(1), now=10.0)
    send_rows(source, featured(agent=5, stream=2))
    assert shown(source, 10.5) == [(3, picture(1))]
    send(source, 2, picture(2), now=11.0)
    assert shown(source, 11.0) == [(5, picture(2))]


def test_nobody_is_shown_for_long_who_plays_no_more() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(agent=3, stream=1))
    send(source, 1, picture(1), now=10.0)
    send_rows(source, featured(agent=5, stream=2))
    assert shown(source, 10.0 + STALE_S + 0.1) == [(5, None)]


def test_who_moves_up_is_not_shown_twice() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(3, 1, place=1), featured(5, 2, place=2))
    send(source, 1, picture(1), now=1.0)
    send(source, 2, picture(2), now=1.0)
    send_rows(source, featured(5, 2, place=1), featured(7, 3, place=2))
    assert shown(source, 1.5) == [(5, picture(2)), (7, None)]


def test_two_that_change_places_take_their_pictures_along() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(3, 1, place=1), featured(5, 2, place=2))
    send(source, 1, picture(1), now=1.0)
    send(source, 2, picture(2), now=1.0)
    send_rows(source, featured(3, 1, place=2), featured(5, 2, place=1))
    assert shown(source, 1.0) == [(5, picture(2)), (3, picture(1))]


def test_a_picture_that_was_old_when_it_came_is_not_shown_as_live() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(3, 1))
    source.handle_message(Message(MessageKind.PING, pack_stamps(100_000)), 100.0)
    send(source, 1, picture(1), now=100.0)  # taken at 0 of the relay's clock
    (panel,) = compose_scene([source], 2, 100.1, (), "", {}).panels
    assert panel.stale
    assert round(panel.silent_s) == 100


def test_pictures_a_second_are_those_of_the_last_five() -> None:
    source = RelayState("ssh")
    send_rows(source, featured(agent=3, stream=1))

    def rate(now: float) -> float:
        return compose_scene([source], 1, now, (), "", {}).panels[0].per_second

    for number in range(40):
        send(source, 1, picture(number), now=100 + number / 8)
    assert rate(105.0) == 8.0
    assert rate(107.5) == 4.0
    assert rate(200.0) == 0.0
