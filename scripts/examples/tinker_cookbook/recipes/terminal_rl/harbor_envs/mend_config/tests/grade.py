"""Grades /app/service.ini: a part of the reward for each section, if the file can be read."""

import configparser
import json
from pathlib import Path

EXPECTED = {
    "server": {"host": "127.0.0.1", "port": "8080", "workers": "4"},
    "storage": {"folder": "/app/data/blobs", "limit_mb": "512"},
    "logging": {"level": "info"},
}
WORTH = {"server": 0.4, "storage": 0.4, "logging": 0.2}
rewards = dict.fromkeys(EXPECTED, 0.0)
path = Path("/app/service.ini")
if path.is_file() and not path.is_symlink() and path.stat().st_size < 10_000:
    parser = configparser.ConfigParser()
    try:
        parser.read_string(path.read_text(errors="replace"))
        found = {name: dict(parser[name]) for name in parser.sections()}
    except configparser.Error:
        found = {}
    for name, values in EXPECTED.items():
        rewards[name] = WORTH[name] * (found.get(name) == values)
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
