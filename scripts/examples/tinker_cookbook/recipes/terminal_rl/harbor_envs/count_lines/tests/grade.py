"""Grades /app/errors.txt: a quarter for a number, the rest for the right one."""

import json
import re
from pathlib import Path

LOGS = Path("/app/logs")
EXPECTED = 29
rewards = {"format": 0.0, "count": 0.0}
answer = Path("/app/errors.txt")
if answer.is_file() and not answer.is_symlink() and answer.stat().st_size < 100:
    text = answer.read_text(errors="replace").strip()
    rewards["format"] = 0.25 if re.fullmatch("[0-9]+", text) else 0.0
    rewards["count"] = 0.75 if text == str(EXPECTED) else 0.0
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
