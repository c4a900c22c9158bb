"""Looks at the viewer's page in a real browser: ``python -m scripts.browse --out FOLDER``.

Eight agents' play of the cartridge goes through a real sender, relay and receiver to the page;
headless Chromium opens its link, presses keys and clicks, and is photographed at 1280x800, 800x600
and as a phone, with 1, 2, 4 and 8 agents, waiting, stale and cut off. What the page says is checked
on the way, what it looks like is for a person. Chromium (``apt install chromium``) is looked for on
the path; it is driven through a pipe, so that no port is opened and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from Daddy.core.clock import SystemClock
from Daddy.core.errors import FileError, run_entry
from Daddy.core.rom import load_rom
from Daddy.core.vocabulary import AgentReport
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.rom import find_rom
from Daddy.pokemon.starts.start_state import beginning
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Wish
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Waiting
from Daddy.streaming.web.server import WebServer

AGENTS, STEPS, FPS = 8, 60, 15
SIZES = {"1280x800": (1280, 800, 1), "800x600": (800, 600, 1), "phone": (375, 700, 2)}
_WAIT_S = 30.0
_LIVE = "document.getElementById('state').textContent.startsWith('live')"
_SHOWN = "document.querySelectorAll('article').length"


class Browser:
    """Headless Chromium with one page, spoken to in its debugging protocol."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = ["--headless", "--remote-debugging-pipe", "--no-sandbox", "--hide-scrollbars",
                 "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]  # fmt: skip
        # Chromium reads 3 and writes 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "browse", program, *flags],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._count, self._heard, self._session = 0, b"", ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: object) -> Any:
        """One command and its result."""
        self._count += 1
        session = {"sessionId": self._session} if self._session else {}
        order = {"id": self._count, "method": method, "params": params, **session}
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._heard:
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self._heard += piece
        message, _, self._heard = self._heard.partition(b"\0")
        return json.loads(message)

    def value(self, expression: str) -> Any:
        """What a line of JavaScript is in the page."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait for a line of JavaScript to be true; RuntimeError when it does not become so."""
        deadline = time.monotonic() + _WAIT_S
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the page does not come to: {expression}")
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else ""
            )

    def click(self, selector: str) -> None:
        """The mouse, on the middle of the first element that fits."""
        place = self.value(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect(); "
            "return JSON.stringify([r.x + r.width / 2, r.y + r.height / 2]); })()"
        )
        x, y = json.loads(place)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, size: tuple[int, int, int]) -> None:
        """Width and height in CSS pixels, and how many of the screen's pixels each of them is."""
        width, height, ratio = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=ratio, mobile=ratio > 1)  # fmt: skip

    def photograph(self, path: Path, *, whole: bool = False) -> None:
        """The page as a PNG file; ``whole``: also what would have to be scrolled to."""
        self.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        print(path, flush=True)

    def close(self) -> None:
        """End it."""
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(timeout=10)


def film(steps: int) -> list[list[bytes]]:
    """Pictures of each agent's random play from the cartridge's beginning."""
    rom = load_rom(find_rom(None, environ={}))
    emulator, films = Emulator(rom.data), []
    for seed in range(AGENTS):
        chance, pictures = random.Random(seed), []
        emulator.load_state(beginning(rom))
        for _ in range(steps):
            emulator.press(chance.choice(BUTTONS))
            pictures.append(emulator.picture())
        films.append(pictures)
    emulator.close()
    return films


def walk(step: int, agent: int) -> int:
    """Where on its map an agent that wanders to and fro stands after so many steps, one axis."""
    return 8 + round(6 * math.sin((step // FPS) / (3 + agent)))


@contextmanager
def play(stream: Path, films: Sequence[Sequence[bytes]], quiet: threading.Event) -> Iterator[None]:
    """Learners that play their films to and fro; they say but show nothing while ``quiet``."""
    stop, places = threading.Event(), ("Fern Hollow", "Slate Town", "Long Road North", "Old Mine")

    def work() -> None:
        sender, step = FrameSender(stream, "slot-0", job="4711", host="node03"), 0
        while not stop.wait(1 / FPS):
            step += 1
            sender.report([
                AgentReport(agent=agent, badges=max(0, 6 - agent), story_flags=12 - agent,
                            episode_return=120.0 - 9 * agent + step % 300 / 10, episode=1,
                            map_id=agent % 4, map_name=places[agent % 4], level=24 - agent,
                            step=18_000 + step, x=walk(step, agent), y=walk(step, agent + 5))
                for agent in range(AGENTS)
            ])  # fmt: skip
            for agent in sender.wanted():
                if not quiet.is_set():
                    sender.offer(agent, films[agent][step % len(films[agent])])
        sender.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


@contextmanager
def relayed(run: Path, port: int, token: Path) -> Iterator[None]:
    """A relay for ``run``, in a thread."""
    stop = threading.Event()
    relay = make_relay(run, port, [token], Wish(2, float(FPS)), "ssh-R", SystemClock())
    thread = threading.Thread(target=relay.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def look(out: Path, folder: Path, browser: Browser) -> None:
    """Every photograph, from waiting to cut off."""
    token, run, links = folder / "token", folder / "slim_run", list[str]()
    (run / "stream").mkdir(parents=True)
    ensure_token(token, "browse")
    receiver = Receiver(0, lambda: load_tokens([token]), Wish(2, float(FPS)), SystemClock())
    wish = lambda top_k: receiver.subscribe(Wish(top_k, float(FPS)))  # noqa: E731
    waiting, say = Waiting(9999, "anna@login.example.edu"), links.append
    page = WebServer(0, receiver.scene, wish, waiting, 2, SystemClock(), say)
    with closing(receiver), closing(page):
        browser.resize(SIZES["800x600"])
        browser.call("Page.navigate", url=links[0].rpartition(" ")[2])
        browser.until("document.querySelectorAll('#steps li').length === 4")
        each_size(browser, out, "waiting")
        quiet = threading.Event()
        with play(run / "stream", film(STEPS), quiet), relayed(run, receiver.port, token):
            want(browser, 2)
            browser.until("world.course.length > 12")
            for top_k in (2, 1, 4, 8):
                want(browser, top_k)
                each_size(browser, out, f"k{top_k}")
            want(browser, 2)
            clicked(browser, out)
            quiet.set()
            browser.until("document.querySelectorAll('article.stale').length === 2")
            each_size(browser, out, "stale")
            quiet.clear()
            want(browser, 2)
            page.close()
            browser.until("!document.getElementById('gone').hidden")
            each_size(browser, out, "gone")


def want(browser: Browser, top_k: int) -> None:
    """Press + or - until so many agents are shown, each with a picture."""
    while (shown := browser.value("facts.top_k")) != top_k:
        browser.press("+" if shown < top_k else "-")
        browser.until(f"facts.top_k !== {shown}")
    browser.until(f"{_LIVE} && {_SHOWN} === {top_k} && live.every(([tag]) => tag)")


def clicked(browser: Browser, out: Path) -> None:
    """One alone, and the palettes."""
    browser.resize(SIZES["800x600"])
    browser.click(".screen")
    browser.until(f"{_SHOWN} === 1")
    browser.photograph(out / "alone-800x600.png")
    browser.press("Escape")
    browser.until(f"{_SHOWN} === 2")
    for number in range(browser.value("look.themes.length")):
        browser.click("#palette")
        browser.photograph(out / f"palette{number}-800x600.png")


def each_size(browser: Browser, out: Path, name: str) -> None:
    """The page as it is now, on three screens; nothing may stick out at the side."""
    for label, size in SIZES.items():
        browser.resize(size)
        browser.value("dispatchEvent(new Event('resize'))")
        wide = browser.value("document.documentElement.scrollWidth")
        if wide > size[0]:
            raise RuntimeError(f"{name} at {label} is {wide} pixels wide")
        browser.photograph(out / f"{name}-{label}.png", whole=label == "phone")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry."""
    parser = argparse.ArgumentParser(prog="python -m scripts.browse", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    out = parser.parse_args(argv).out
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise FileError("no Chromium on the path", "apt install chromium")
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        closing(Browser(program, Path(folder) / "profile")) as browser,
    ):
        look(out, Path(folder), browser)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
