"""Share of time that four learners spend on shared weights: as shipped, on the cartridge.

They are real processes with one thread each. A learner's metrics give the seconds of publishing,
merging and adopting, waiting included; its time is that from its first metrics to its last: ten
minutes, as the first contribution comes before its cost is known.
"""

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from scripts.benches._learning_pool import single_threaded
from scripts.version_history import read_history

LEARNERS = 4
_TRAINING = {
    "workload": "pokemon_red",
    "device": "cpu",
    "profile": "cpu",
    "vector_backend": "serial",
    "stream": False,
}


def measure(folder: Path, seconds: float) -> dict[str, object]:
    """Return the share of time, versions made and steps, `seconds` after the start."""
    folder.mkdir(parents=True)
    config, run = folder / "config.json", RunPaths(folder / "run")
    four = {"max_running": LEARNERS, "time_limit": "48:00:00"}
    settings = {"run_dir": str(run.root), "training": _TRAINING, "slurm": four}
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "Daddy.train_slim", "--config", str(config)]
    with ExitStack() as stack:
        for _ in range(LEARNERS):
            stack.enter_context(single_threaded(folder, command))
        time.sleep(seconds)
    versions = read_history(SharedPaths(run.shared_weights)).versions
    return {**_share(run), "versions": len(versions) - 1, "fleet_steps": versions[-1].fleet_steps}


def _share(run: RunPaths) -> dict[str, float]:
    sharing, whole = 0.0, 0.0
    for path in sorted(run.events.glob("learner-slot-*.jsonl")):
        metrics = [
            read_event
            for read_event in read_events(run.events, path.name)
            if read_event["event"] == "metric"
        ]
        sharing += sum(float(metric["data"].get("share_seconds", 0.0)) for metric in metrics[1:])
        whole += float(metrics[-1]["ts"]) - float(metrics[0]["ts"]) if metrics else 0.0
    if not whole:
        raise DaddyError("no learner came to learning in that time", "leave --quick away")
    return {"share_of_time": round(sharing / whole, 5), "learner_seconds": round(whole, 1)}
