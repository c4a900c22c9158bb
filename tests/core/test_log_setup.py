"""Log lines: time stamp, level, module; nothing from elsewhere can forge one."""

import argparse
import io
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import LINE_LIMIT, EventWriter
from Daddy.core.log_setup import LEVEL, add_log_flags, log_to


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave logging and the environment as they were."""
    monkeypatch.setenv(LEVEL, "")
    root, ours = logging.getLogger(), logging.getLogger("Daddy")
    before = (list(root.handlers), root.level, ours.level, logging.raiseExceptions)
    yield
    root.handlers[:], root.level, ours.level, logging.raiseExceptions = before
    root.setLevel(before[1])
    ours.setLevel(before[2])


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_line_has_a_time_a_level_and_its_module() -> None:
    log_to(stream := io.StringIO())
    logging.getLogger("Daddy.cluster.launch").info("slot %d is free", 3)
    (line,) = lines(stream)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO    test_log_setup: slot 3 is free", line
    )


def test_text_from_elsewhere_stays_on_its_line() -> None:
    log_to(stream := io.StringIO())
    logging.getLogger("Daddy.x").warning("peer says %s", "a\n2026-01-01T00:00:00Z ERROR x\x1b[2J")
    (line,) = lines(stream)
    assert "peer says a?2026" in line
    assert "\x1b" not in line


def test_a_traceback_keeps_its_lines_and_forges_none() -> None:
    log_to(stream := io.StringIO())
    try:
        raise ValueError("gone\n2026 ERROR forged\x1b")
    except ValueError:
        logging.getLogger("Daddy.x").exception("a pass failed")
    assert lines(stream)[1] == "  Traceback (most recent call last):"
    assert lines(stream)[-2:] == ["  ValueError: gone", "  2026 ERROR forged?"]


@pytest.mark.parametrize(
    ("flags", "shown"), [([], "IW"), (["-v"], "DIW"), (["--quiet"], "W"), (["-q"], "W")]
)
def test_the_flags_choose_the_level_and_a_child_inherits_it(flags: list[str], shown: str) -> None:
    parser = argparse.ArgumentParser()
    add_log_flags(parser)
    log_to(stream := io.StringIO(), parser.parse_args(flags).log_level)
    log = logging.getLogger("Daddy.x")
    log.debug("D"), log.info("I"), log.warning("W")
    assert "".join(line[-1] for line in lines(stream)) == shown
    log_to(again := io.StringIO())  # as a child does, which has no flag
    log.debug("D"), log.info("I"), log.warning("W")
    assert "".join(line[-1] for line in lines(again)) == shown
    assert os.environ[LEVEL] in {"DEBUG", "INFO", "WARNING"}


def test_other_libraries_keep_to_warnings() -> None:
    log_to(stream := io.StringIO(), "DEBUG")
    logging.getLogger("paramiko").info("connected")
    logging.getLogger("paramiko").warning("lost")
    assert [line[-4:] for line in lines(stream)] == ["lost"]


def test_events_are_logged_where_a_log_was_asked_for(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path, "run", "cartpole", "learner", "slot-0", SystemClock())
    log_to(stream := io.StringIO())
    writer.write("state", 0, {"state": "claimed", "text": "slot 0 was claimed"})
    writer.write("metric", 1, {"steps_per_second": 1.0})
    writer.write("error", 1, {"reason": "the disk is full"})
    assert [line.split(" ", 1)[1] for line in lines(stream)] == [
        "INFO    test_log_setup: slot 0 was claimed",
        "ERROR   test_log_setup: the disk is full",
    ]


def test_an_event_over_the_limit_is_not_logged_either(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path, "run", "cartpole", "learner", "slot-0", SystemClock())
    log_to(stream := io.StringIO())
    with pytest.raises(ValueError, match="over the limit"):
        writer.write("state", 0, {"text": "x" * LINE_LIMIT})
    assert stream.getvalue() == ""


def test_a_log_file_is_utf_8_whatever_the_locale_because_logs_reads_utf_8() -> None:
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, "iso-8859-1")
    log_to(stream)
    logging.getLogger("Daddy").info("step 5 · mean return 3 ●")
    stream.flush()
    assert "step 5 · mean return 3 ●" in file.getvalue().decode("utf-8")
