"""Grades the output of the exercise: a part of the reward for each folder that is as it should."""

import json
import re
from pathlib import Path

EXPECTED = {
    "order": """
backup-09-06-2021.tar
backup-15-12-2022.tar
-- left
backup-02-03-2024.tar
backup-30-01-2024.tar
""",
    "others": """
backup-05-05-2020.tar
-- left
backup-06-05-2020.tar
backup-1-2-2019.tar
backup-old.tar
keep.txt
""",
    "few": """
-- left
backup-11-11-2011.tar
backup-12-11-2011.tar
""",
}
WORTH = {"order": 0.5, "others": 0.3, "few": 0.2}
text = Path("/logs/verifier/exercise.txt").read_text(errors="replace")
parts = re.split(r"^== (\w+)$", text, flags=re.MULTILINE)
found = dict(zip(parts[1::2], parts[2::2], strict=False))
order = WORTH["order"] * (found.get("order", "").strip() == EXPECTED["order"].strip())
rewards = {
    name: WORTH[name] * (order > 0 and found.get(name, "").strip() == expected.strip())
    for name, expected in EXPECTED.items()
}
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
