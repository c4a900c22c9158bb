"""Damaged messages end a connection with a reason and little memory (``./scripts/soak stream``)."""

import pytest

from Daddy.streaming.protocol import messages
from Daddy.streaming.viewer import view_model
from scripts.soaks import stream


def test_thousands_of_spoilt_messages_break_nothing_and_are_not_kept() -> None:
    figures = stream.run(3_000, seed=7)
    assert figures["broken"] == []
    assert figures["messages"] >= 3_000
    assert figures["refused"] > 500
    held = figures["held_bytes_most"]
    assert set(held) == {target.__name__ for target in stream.CONNECTIONS}
    assert max(held.values()) <= stream.LIMIT


@pytest.mark.parametrize("weakness", ["a reader that trusts lengths", "a scene that keeps notes"])
def test_what_is_broken_on_purpose_is_found(weakness: str, monkeypatch) -> None:
    if weakness == "a reader that trusts lengths":
        monkeypatch.setattr(messages, "read_ack", lambda body: messages._ACK.unpack(body)[0])
        monkeypatch.setattr("scripts.soaks.hostile_visits._READERS", (messages.read_ack,))
        word = "unpack requires"
    else:
        kept, hear = [], view_model.RelayState.handle_message

        def hoard(self, message, now):
            kept.append(bytearray(16_000))
            return hear(self, message, now)

        monkeypatch.setattr(view_model.RelayState, "handle_message", hoard)
        word = "held"
    broken = stream.throw(7, (0, 1_500)).broken
    assert any(word in finding for finding in broken), broken
