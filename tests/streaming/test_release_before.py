"""Viewers and jobs of the release that streamed inputs work with this one, in pictures."""

import json
import struct
from pathlib import Path

from Daddy.streaming.login.stream_folder import WatchRequest, read_watch_request
from Daddy.streaming.protocol.framing import Message, MessageSplitter, pack_message
from Daddy.streaming.protocol.messages import Subscription, read_subscription
from Daddy.streaming.protocol.spool_segment import (
    CapturedPicture,
    FramePacker,
    WriterIdentity,
    pack_file,
    pack_head,
    pack_reports,
    read_segment,
)
from Daddy.streaming.viewer.view_model import RelayState
from tests.streaming.helpers import picture, report
from tests.streaming.test_stream_scheduler import make_scheduler, play

OFFER, WANT, PLAY = 13, 14, 15
BEGINNING = struct.pack("<I", 1) + json.dumps({"rom_sha1": "a" * 40, "start": "spot"}).encode()
PIECE = struct.pack("<II", 1, 1) + b"a stretch"


def test_a_viewer_that_asks_for_inputs_gets_pictures() -> None:
    wish = read_subscription(b'{"k":2,"fps":60,"inputs":true,"pins":[["slot-0",1]]}')
    assert wish == Subscription(2, 60.0, (("slot-0", 1),))
    scheduler = make_scheduler()
    scheduler.subscription = wish
    (stream, _), *_ = play(scheduler, 100.0)
    want = pack_message(Message(WANT, struct.pack("<IIB", 1, 7, 1), stream=stream))
    splitter = MessageSplitter()
    splitter.feed(want)
    message = splitter.next_message()
    assert message is not None
    assert scheduler.handle_viewer_message(message, 100.1) == ()
    assert [stream for stream, _ in play(scheduler, 101.0)] == [1, 2], "pictures go on"


def test_a_relay_that_offers_inputs_is_heard_and_its_offers_are_passed_over() -> None:
    source = RelayState("ssh")
    for kind, body in ((OFFER, BEGINNING), (PLAY, struct.pack("<III", 1, 1, 5) + b"a stretch")):
        assert source.handle_message(Message(kind, body, stream=1), 100.0) == ([], "")


def test_a_job_that_writes_inputs_beside_its_pictures_is_read() -> None:
    writer = WriterIdentity("slot-0", "node1", "17", "01234567")
    frame = FramePacker().pack_frame(CapturedPicture(1, 5, 0, 66, picture(1)))
    assert frame is not None
    head = pack_head(pack_reports(writer, [report(1)]), 100)
    segment = read_segment(
        pack_file(3, [*head, Message(PLAY, struct.pack("<I", 7) + PIECE, 1), frame])
    )
    assert segment is not None
    assert [taken.pixels for taken in segment.pictures] == [picture(1)]
    assert [row.agent for row in segment.rows] == [1]


def test_a_wish_list_that_wants_inputs_is_read_as_one_for_pictures(tmp_path: Path) -> None:
    wanted = {"slot-0": [1, 2]}
    facts = {"v": 1, "counter": 7, "fps": 15.0, "wanted": wanted, "taped": wanted, "host": "login1"}
    (tmp_path / "wanted.json").write_text(json.dumps(facts))
    wishes = WatchRequest(7, 15.0, {"slot-0": frozenset({1, 2})}, host="login1")
    assert read_watch_request(tmp_path) == wishes
