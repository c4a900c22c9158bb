"""Measures the growth of relay, viewer and streamer while jobs change.

Two slots are watched: one with a new job every ten seconds, each standing for a job of four hours,
and one with a single job, whose streamer runs all the time. Sizes are taken once settled and at the
end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.host_and_processes import command_lines, resident_bytes
from Daddy.streaming.protocol.handshake import ensure_token
from scripts.benches._stream_login import free_port, ours, wait_for

SECONDS, TEN_MINUTES_S, QUICK_S = 3600.0, 600.0, 8.0
JOB_S = 10.0
"""Seconds of a job, which stands for one of four hours."""
MIB = 1 << 20
_JOBS = "scripts.benches._stream_jobs"


def measure(pictures: Sequence[bytes], seconds: float) -> dict[str, object]:
    """Return the resident MiB of relay, viewer, a learner's side and its streamer, and growth."""
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
            return _measure_growth({**pids, "streamer": streamer}, seconds)


def _streamer(arguments: str) -> int:
    """Return the pid of the streamer with these arguments, once it runs."""
    pids: list[int] = []

    def find() -> bool:
        command = f"Daddy.streaming.streamer {arguments}"
        pids[:] = [pid for pid, line in command_lines().items() if command in line]
        return bool(pids)

    wait_for(find, "the lasting job's streamer did not start")
    return pids[0]


def _measure_growth(pids: dict[str, int], seconds: float) -> dict[str, object]:
    """Measure after a third of the time, or ten minutes if that is less, and at the end."""
    settle = min(seconds / 3, TEN_MINUTES_S)
    time.sleep(settle)
    first = {name: resident_bytes(pid) / MIB for name, pid in pids.items()}
    time.sleep(seconds - settle)
    last = {name: resident_bytes(pid) / MIB for name, pid in pids.items()}
    grown = {name: last[name] - first[name] for name in pids}
    return {"seconds": seconds, "mib": last, "grown_mib": grown, "job_changes": seconds // JOB_S}
