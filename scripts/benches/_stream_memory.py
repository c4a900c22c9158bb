"""Whether relay, viewer and streamer stay as large as they are while jobs change.

Two slots are watched: one whose jobs change every ten seconds, as if four hours had passed, and one
whose job lasts all the time, so that a streamer grows old. Sizes are taken once settled and at the
end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.machine_info import command_lines, resident_bytes
from Daddy.streaming.protocol.handshake import ensure_token
from scripts.benches._stream_login import free_port, ours, wait_for

SECONDS, TEN_MINUTES_S, QUICK_S = 3600.0, 600.0, 8.0
JOB_S = 10.0
"""A job's life: four hours go by in so many seconds."""
MIB = 1 << 20
_JOBS = "scripts.benches._stream_jobs"


def measure(pictures: Sequence[bytes], seconds: float) -> dict[str, object]:
    """Resident MiB of relay, viewer, a learner's side and its streamer, and their growth."""
    with tempfile.TemporaryDirectory(prefix="daddy-memory-") as temporary:
        folder = Path(temporary)
        run, token, port = folder / "run", folder / "token", free_port()
        (run / "stream").mkdir(parents=True)
        ensure_token(token, "bench")
        corpus = folder / "corpus"
        corpus.write_bytes(b"".join(pictures))
        relay = ("--run-dir", run, "--port", port, "--token", token)
        show = ("--headless", "--port", port, "--token", token)
        changing = (run / "stream", "slot-0", corpus, JOB_S)
        lasting = (run / "stream", "slot-1", corpus, 2 * seconds)
        with (
            ours("Daddy.streaming.tunnel_server", *show, home=folder, log=folder / "a") as viewer,
            ours("Daddy.streaming.relay", *relay, home=folder, log=folder / "b") as sender,
            ours(_JOBS, *changing, home=folder, log=folder / "c") as jobs,
            ours(_JOBS, *lasting, home=folder, log=folder / "d"),
        ):
            streamer = _streamer(f"{run / 'stream'} slot-1 ")
            pids = {"viewer": viewer.pid, "relay": sender.pid, "jobs": jobs.pid}
            return _weigh({**pids, "streamer": streamer}, seconds)


def _streamer(words: str) -> int:
    """The pid of the streamer with these words."""
    found: list[int] = []

    def look() -> bool:
        said = f"Daddy.streaming.streamer {words}"
        found[:] = [pid for pid, line in command_lines().items() if said in line]
        return bool(found)

    wait_for(look, "the lasting job's streamer did not start")
    return found[0]


def _weigh(pids: dict[str, int], seconds: float) -> dict[str, object]:
    """They have a third of the time, ten minutes at most, to settle."""
    settle = min(seconds / 3, TEN_MINUTES_S)
    time.sleep(settle)
    first = {name: resident_bytes(pid) / MIB for name, pid in pids.items()}
    time.sleep(seconds - settle)
    last = {name: resident_bytes(pid) / MIB for name, pid in pids.items()}
    grown = {name: last[name] - first[name] for name in pids}
    return {"seconds": seconds, "mib": last, "grown_mib": grown, "job_changes": seconds // JOB_S}
