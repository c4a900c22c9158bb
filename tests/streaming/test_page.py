"""The viewer's page over real HTTP: admission, news, and other browsers beside a slow one."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import NetworkError
from Daddy.core.loopback import listen_on_loopback
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming import tunnel_server
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import TunnelInfo
from Daddy.streaming.web import web_server
from Daddy.streaming.web.web_server import WebServer
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import finish, free_port, picture, start
from tests.streaming.test_relay_to_viewer import learners, receiver, relay, run, token

__all__ = ["receiver", "run", "token"]  # fixtures
WAITING = TunnelInfo(9999, "anna@login.example.edu")
PICTURES = {picture(seed) for seed in range(40)}


@dataclass
class Page:
    """A served page, and the links that its viewer has printed."""

    port: int
    printed: list[str]
    wishes: list[int] = field(default_factory=list)

    @property
    def key(self) -> str:
        match = re.search(r"\?key=([\w-]{40,})$", self.printed[-1])
        assert match, self.printed[-1]
        return match.group(1)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@pytest.fixture
def page(receiver: Receiver) -> Iterator[Page]:
    printed: list[str] = []
    served = Page(0, printed)

    def wish(top_k: int) -> None:
        served.wishes.append(top_k)
        receiver.subscribe(Subscription(top_k, 60.0))

    server = WebServer(0, receiver.current_scene, wish, WAITING, 2, SystemClock(), printed.append)
    served.port = server.port
    yield served
    server.close()


class Browser:
    """A browser as the server sees it: one kept connection, a cookie, headers of its own."""

    def __init__(self, page: Page, **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
        self.headers = {"Host": f"127.0.0.1:{page.port}", **headers}
        self.facts: dict[str, object] = {}
        self.had: dict[str, str] = {}

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        self.connection.request(method, path, headers={**self.headers, **headers})
        answer = self.connection.getresponse()
        body = answer.read()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)

    def enter(self, page: Page) -> Browser:
        first = self.ask(f"/?key={page.key}")
        assert first.status == 200
        self.headers["Cookie"] = first.headers["set-cookie"].split(";")[0]
        return self

    def read_news(self) -> tuple[dict[str, object], list[bytes]]:
        """Return the next news as page.js reads them: the JSON head and the new pictures."""
        reply = self.ask(f"/news?{urlencode(self.had)}")
        assert reply.status == 200
        (length,) = struct.unpack_from("<I", reply.body)
        head = json.loads(reply.body[4 : 4 + length])
        rest = reply.body[4 + length :]
        assert len(rest) == len(head["new"]) * SCREEN_BYTES
        self.facts = head.get("facts", self.facts)
        shown = ",".join(name for name, _, _ in head["live"])
        self.had = {**head["tags"], "pictures": shown}
        pieces = range(0, len(rest), SCREEN_BYTES)
        return head, [rest[at : at + SCREEN_BYTES] for at in pieces]


def test_the_link_opens_one_browser_once_and_the_next_link_is_told(page: Page) -> None:
    key = page.key
    first = Browser(page).ask(f"/?key={key}")
    assert first.status == 200
    assert "<canvas" in first.text
    attributes = first.headers["set-cookie"].split("; ")[1:]
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    again = Browser(page).ask(f"/?key={key}")
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    assert page.key != key
    assert Browser(page).ask(f"/?key={page.key}").status == 200


def test_a_reload_of_a_used_link_comes_with_the_cookie(page: Page) -> None:
    key, browser = page.key, Browser(page)
    browser.enter(page)
    assert browser.ask(f"/?key={key}").status == 200


@pytest.mark.parametrize("path", ["/", "/?key=", "/?key=wrong", "/news", "/style", "/page.js"])
def test_without_the_link_there_is_nothing_but_a_sentence(page: Page, path: str) -> None:
    refused = Browser(page).ask(path, Cookie=f"daddy-{page.port}=guess; other=x")
    assert refused.status == 403
    assert "the link that the viewer printed" in refused.text
    assert Browser(page).ask("/wish?top_k=3", "POST").status == 403
    assert page.wishes == []


def test_another_name_for_this_computer_is_refused_whatever_it_knows(page: Page) -> None:
    """The page of another domain whose owner resolves it to 127.0.0.1."""
    browser = Browser(page).enter(page)
    for host in (f"evil.example:{page.port}", "127.0.0.1", f"127.0.0.1:{page.port + 1}", ""):
        refused = browser.ask("/news", Host=host)
        assert refused.status == 403, host
        assert f"http://127.0.0.1:{page.port}/" in refused.text
    assert browser.ask("/style", Host=f"localhost:{page.port}").status == 200
    assert Browser(page, Host="evil.example").ask(f"/?key={page.key}").status == 403
    assert Browser(page).ask(f"/?key={page.key}").status == 200, "the key was not used up by it"


def test_a_page_of_another_origin_is_refused(page: Page) -> None:
    browser = Browser(page).enter(page)
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{page.port + 1}"):
        refused = browser.ask("/wish?top_k=3", "POST", Origin=origin)
        assert (refused.status, page.wishes) == (403, []), origin
    own = browser.ask("/wish?top_k=3", "POST", Origin=f"http://127.0.0.1:{page.port}")
    assert (own.status, page.wishes) == (204, [3])


def test_every_answer_forbids_to_keep_guess_frame_or_fetch_from_elsewhere(page: Page) -> None:
    browser = Browser(page).enter(page)
    for path in ("/", "/page.css", "/page.js", "/style", "/news", "/nothing"):
        headers = browser.ask(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "Python" not in headers["server"]


def test_the_page_names_nothing_outside_itself() -> None:
    for name in ("page.html", "page.css", "page.js"):
        text = web_server._read_asset(name).decode()
        others = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
        assert others == set()
        assert "innerHTML" not in text
        assert not re.search(r"\son\w+=|style=", text), "the policy forbids both"


def test_the_scene_and_its_pictures_arrive_as_they_were_sent(run, token, receiver, page) -> None:
    browser = Browser(page).enter(page)
    with learners(run / "stream"), relay(run, receiver.port, token):
        seen: list[bytes] = []
        assert until(lambda: seen.extend(browser.read_news()[1]) or len(seen) > 10, 20)
        assert until(lambda: browser.read_news() and "4 agents" in browser.facts["fleet"], 20)
    assert set(seen) <= PICTURES
    first, second = browser.facts["panels"]
    assert (first["agent"], second["agent"]) == ("slot-1/0", "slot-1/1")
    assert (first["badges"], first["map"], first["job"]) == (6, "Fern Hollow", "17")
    assert browser.facts["run"] == "slim_run"


def test_who_has_everything_is_told_only_ages_and_not_at_once(receiver, page) -> None:
    browser = Browser(page).enter(page)
    head, _ = browser.read_news()
    assert head["facts"]["copy"][1] == "ssh -R 9999:localhost:9999 anna@login.example.edu"
    again, pictures = browser.read_news()
    assert (again["new"], "facts" in again, pictures) == ([], False, [])


def test_a_browser_may_ask_for_more_agents_but_not_for_any_number(
    run, token, receiver, page
) -> None:
    browser = Browser(page).enter(page)
    for bad in ("0", "17", "-1", "2e0", "٣", ""):
        asked = urlencode({"top_k": bad})
        assert browser.ask(f"/wish?{asked}", "POST").status == 400
    with learners(run / "stream"), relay(run, receiver.port, token):
        assert browser.ask("/wish?top_k=4", "POST").status == 204
        assert until(lambda: browser.read_news() and len(browser.facts["panels"]) == 4, 20)
    assert page.wishes == [4]


def test_a_browser_that_reads_nothing_holds_up_neither_another_nor_the_pictures(
    run, token, receiver, page, monkeypatch
) -> None:
    monkeypatch.setattr(web_server, "SEND_S", 1.0)
    frozen, other = Browser(page).enter(page), Browser(page).enter(page)
    head = "".join(f"{name}: {value}\r\n" for name, value in frozen.headers.items())
    with learners(run / "stream"), relay(run, receiver.port, token), socket.socket() as mute:
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        mute.connect(("127.0.0.1", page.port))
        ended = threading.Event()

        def shout() -> None:
            """Request everything repeatedly without reading an answer."""
            while not ended.wait(0.01):
                try:
                    mute.sendall(f"GET /page.js HTTP/1.1\r\n{head}\r\n".encode())
                except OSError:
                    ended.set()

        thread = threading.Thread(target=shout)
        thread.start()
        try:
            seen: list[bytes] = []
            assert until(lambda: seen.extend(other.read_news()[1]) or len(seen) > 20, 20)
            assert until(ended.is_set, 30), "it is given up"
            assert until(lambda: other.read_news()[1], 20)
        finally:
            ended.set()
            thread.join(10)


@pytest.mark.parametrize(
    "knock",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000,
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"\xff" * 400 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n" + b"GET / HTTP/1.1\r\n\r\nand more",
        b"PUT / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_no_browser_sends_ends_with_a_word_at_most(page: Page, knock: bytes, capfd) -> None:
    with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S) as stranger:
        stranger.sendall(knock)
        answer = _all_of(stranger)
    assert len(answer) < 1200
    assert not answer or b" 200 " not in answer.split(b"\r\n")[0]
    assert Browser(page).enter(page).ask("/style").status == 200
    assert "Traceback" not in capfd.readouterr().err


def _all_of(stranger: socket.socket) -> bytes:
    answer = b""
    try:
        while piece := stranger.recv(4096):
            answer += piece
    except ConnectionError:
        pass
    return answer


def test_who_asks_too_slowly_and_a_crowd_are_closed(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_S", 0.3)
    crowd = [
        socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S) for _ in range(40)
    ]
    try:
        for sock in crowd:
            sock.sendall(b"GET / HTTP/1.1\r\n")
        assert [_all_of(sock) for sock in crowd] == [b""] * 40
    except (ConnectionError, BrokenPipeError):
        pass  # closed before its first byte
    finally:
        for sock in crowd:
            sock.close()
    assert until(lambda: _answers(page))


def test_idle_strangers_lock_no_browser_out(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_S", PATIENCE_S)
    with ExitStack() as crowd:
        for _ in range(40):
            crowd.enter_context(socket.create_connection(("127.0.0.1", page.port), PATIENCE_S))
        assert Browser(page).enter(page).ask("/style").status == 200


def test_who_drips_is_closed_however_steadily(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_S", 0.3)
    with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert until(lambda: not _takes(dripping, b"x"), 10)


def _takes(stranger: socket.socket, drop: bytes) -> bool:
    try:
        stranger.sendall(drop)
    except ConnectionError:
        return False
    return True


def _answers(page: Page) -> bool:
    try:
        return Browser(page).ask("/").status == 403
    except (ConnectionError, http.client.HTTPException):
        return False


def test_both_loopback_addresses_listen_and_no_other(page: Page, receiver) -> None:
    listeners = listen_on_loopback(0, 1, "")
    names = {listener.getsockname()[0] for listener in listeners}
    for listener in listeners:
        listener.close()
    assert names == {"127.0.0.1", "::1"}
    for host in names:
        socket.create_connection((host, page.port), timeout=PATIENCE_S).close()


def test_a_page_port_in_use_says_which_other_to_take(page: Page, receiver) -> None:
    with pytest.raises(NetworkError) as error:
        WebServer(
            page.port, receiver.current_scene, lambda _: None, WAITING, 2, SystemClock(), print
        )
    assert error.value.exit_code == 8
    assert f"--web {page.port - 1}" in error.value.fix


def test_closing_frees_the_port_and_ends_whoever_waits(receiver) -> None:
    printed: list[str] = []
    show = (receiver.current_scene, lambda _: None, WAITING, 2, SystemClock(), printed.append)
    first = WebServer(0, *show)
    served = Page(first.port, printed)
    browser = Browser(served).enter(served)
    browser.read_news()
    first.close()
    with pytest.raises((ConnectionError, http.client.HTTPException, AssertionError)):
        browser.read_news()
    WebServer(first.port, *show).close()


def test_the_command_prints_the_link_and_serves_the_page(tmp_path: Path) -> None:
    port = free_port()
    viewer = start("Daddy.streaming.tunnel_server", "--port", 0, "--web", port, home=tmp_path)
    try:
        assert viewer.stdout
        served = Page(port, [viewer.stdout.readline().strip()])
        assert served.printed[0].startswith(f"open in a browser: http://127.0.0.1:{port}/?key=")
        browser = Browser(served).enter(served)
        browser.read_news()
        assert browser.facts["state"] == ["waiting", "calls"]
        assert "ssh -R 9999:localhost:" in browser.facts["copy"][1]
    finally:
        printed = finish(viewer)
    assert viewer.returncode == 0
    assert printed.startswith("shown; in another browser: "), "no lines beside the page"


def test_a_page_needs_a_port_that_there_is(capsys) -> None:
    assert run_entry(tunnel_server.main, ["--web", "70000"]) == 2
    assert "--web 70000" in capsys.readouterr().err
