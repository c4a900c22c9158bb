"""Grades /app/letter.txt: a third of the reward for each change, nothing if other lines changed."""

import json
from pathlib import Path

KEPT = (
    "To the day shift",
    "The pump in hall two was greased on Monday.",
    "The key lies in the usual place.",
)
rewards = {"removed": 0.0, "corrected": 0.0, "added": 0.0}
path = Path("/app/letter.txt")
if path.is_file() and not path.is_symlink() and path.stat().st_size < 10_000:
    lines = path.read_text(errors="replace").splitlines()
    if all(lines.count(line) == 1 for line in KEPT) and 5 <= len(lines) <= 6:
        third = 1 / 3
        rewards["removed"] = third * ("DRAFT" not in lines)
        rewards["corrected"] = third * ("It has to be looked at again on Tuesday." in lines)
        rewards["added"] = third * (lines[-1] == "Yours, the night shift")
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
