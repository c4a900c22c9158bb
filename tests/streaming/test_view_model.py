"""What is to be seen of what was told: a panel is not empty because an agent was replaced."""

from __future__ import annotations

from dataclasses import replace

from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.framing import Kind, Message
from Daddy.streaming.protocol.messages import Frame, Row, pack_rows, row_of, stamps
from Daddy.streaming.viewer.view_model import STALE_S, Source, compose
from tests.streaming.helpers import picture, report


def told(source: Source, *rows: Row) -> None:
    source.hear(Message(Kind.TELEM, pack_rows(rows)), 0.0)


def shown(source: Source, now: float) -> list[tuple[int, bytes | None]]:
    scene = compose([source], 2, now, (), "", {})
    return [(panel.row.agent, panel.pixels) for panel in scene.panels]


def featured(agent: int, stream: int, place: int = 1) -> Row:
    return replace(row_of(report(agent)), stream=stream, place=place)


def send(source: Source, stream: int, pixels: bytes, now: float) -> None:
    frame = Frame(1, 0, 0, 0, 0, frame_codec.encode(pixels)).pack()
    answers, _ = source.hear(Message(Kind.FRAME, frame, stream=stream), now)
    assert [one.kind for one in answers] == [Kind.ACK]


def test_who_is_replaced_is_shown_until_the_newcomers_first_picture_is_here() -> None:
    source = Source("ssh")
    told(source, featured(agent=3, stream=1))
    assert shown(source, 0.0) == [(3, None)]
    send(source, 1, picture(1), now=10.0)
    told(source, featured(agent=5, stream=2))
    assert shown(source, 10.5) == [(3, picture(1))]
    send(source, 2, picture(2), now=11.0)
    assert shown(source, 11.0) == [(5, picture(2))]


def test_nobody_is_shown_for_long_who_plays_no_more() -> None:
    source = Source("ssh")
    told(source, featured(agent=3, stream=1))
    send(source, 1, picture(1), now=10.0)
    told(source, featured(agent=5, stream=2))
    assert shown(source, 10.0 + STALE_S + 0.1) == [(5, None)]


def test_who_moves_up_is_not_shown_twice() -> None:
    source = Source("ssh")
    told(source, featured(3, 1, place=1), featured(5, 2, place=2))
    send(source, 1, picture(1), now=1.0)
    send(source, 2, picture(2), now=1.0)
    told(source, featured(5, 2, place=1), featured(7, 3, place=2))
    assert shown(source, 1.5) == [(5, picture(2)), (7, None)]


def test_two_that_change_places_take_their_pictures_along() -> None:
    source = Source("ssh")
    told(source, featured(3, 1, place=1), featured(5, 2, place=2))
    send(source, 1, picture(1), now=1.0)
    send(source, 2, picture(2), now=1.0)
    told(source, featured(3, 1, place=2), featured(5, 2, place=1))
    assert shown(source, 1.0) == [(5, picture(2)), (3, picture(1))]


def test_a_picture_that_was_old_when_it_came_is_not_shown_as_live() -> None:
    source = Source("ssh")
    told(source, featured(3, 1))
    source.hear(Message(Kind.PING, stamps(100_000)), 100.0)
    send(source, 1, picture(1), now=100.0)  # taken at 0 of the relay's clock
    (panel,) = compose([source], 2, 100.1, (), "", {}).panels
    assert panel.stale
    assert round(panel.silent_s) == 100


def test_pictures_a_second_are_those_of_the_last_five() -> None:
    source = Source("ssh")
    told(source, featured(agent=3, stream=1))

    def rate(now: float) -> float:
        return compose([source], 1, now, (), "", {}).panels[0].per_second

    for number in range(40):
        send(source, 1, picture(number), now=100 + number / 8)
    assert rate(105.0) == 8.0
    assert rate(107.5) == 4.0
    assert rate(200.0) == 0.0
