#!/bin/bash
# Starts the service and prints a line for each answer: path, status, body.
[ -x /app/start.sh ] || exit 0
timeout 5 /app/start.sh > /dev/null 2>&1 < /dev/null
python3 -I - <<'END'
import time
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

BASE = "http://127.0.0.1:8000"
deadline = time.monotonic() + 5
while time.monotonic() < deadline:
    try:
        urlopen(BASE + "/", timeout=1)
    except HTTPError:
        break
    except (URLError, OSError):
        time.sleep(0.05)
    else:
        break
for path in ("/upper/lantern", "/upper/Oak", "/length/harbour", "/length/a", "/other/x"):
    try:
        with urlopen(BASE + path, timeout=2) as answer:
            status, body = answer.status, answer.read(100).decode("ascii", "replace").strip()
    except HTTPError as error:
        status, body = error.code, ""
    except (OSError, ValueError):
        status, body = 0, ""
    print(path, status, body, flush=True)
END
