"""Grades the answers that the exercise printed: a part of the reward for each kind of path."""

import json
from pathlib import Path

EXPECTED = {
    "upper": ("/upper/lantern 200 LANTERN", "/upper/Oak 200 OAK"),
    "length": ("/length/harbour 200 7", "/length/a 200 1"),
    "other": ("/other/x 404",),
}
WORTH = {"upper": 0.4, "length": 0.4, "other": 0.2}
text = Path("/logs/verifier/exercise.txt").read_text(errors="replace")
lines = [line.strip() for line in text.splitlines()]
whole = len(lines) == sum(map(len, EXPECTED.values()))
rewards = {
    kind: WORTH[kind] * (whole and all(line in lines for line in expected))
    for kind, expected in EXPECTED.items()
}
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
