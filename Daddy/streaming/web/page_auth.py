"""Pure. Admits one browser with the link, asked by its own page.

Every program of every user of this computer can reach a loopback port, and so can any page that the
browser has open, also under a name that its owner points to 127.0.0.1. Hence a key that works once
and becomes a cookie, and names that must be ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in small letters."""


class Doorkeeper:
    """Admits browsers to the page on ``port``. ``secret``: a new text at each call."""

    def __init__(self, port: int, secret: Callable[[], str]) -> None:
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie_name = f"daddy-{port}"
        self._secret = secret
        self._key = secret()
        self._cookie = secret()

    @property
    def link(self) -> str:
        """The address that opens the page in one more browser, once."""
        return f"http://{self._names[0]}/?key={self._key}"

    def objection(self, headers: Headers) -> str:
        """Reason to refuse a request that is not from our own page; empty when it may be."""
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            return f"This page is only at http://{self._names[0]}/ and under no other name."
        origins = headers.get("origin", ())
        if any(one.lower() != f"http://{hosts[0].lower()}" for one in origins):
            return "Another page may not ask for this one."
        return ""

    def knows(self, headers: Headers) -> bool:
        crumbs = [crumb for one in headers.get("cookie", ()) for crumb in one.split(";")]
        pairs = [crumb.strip().partition("=") for crumb in crumbs]
        mine = [value for name, _, value in pairs if name == self._cookie_name]
        return any(_same(value, self._cookie) for value in mine)

    def exchange(self, key: str) -> str:
        """The cookie to set for the key of the link, which is used up; empty for any other key."""
        if not _same(key, self._key):
            return ""
        self._key = self._secret()
        return f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"


def _same(one: str, other: str) -> bool:
    """Equal, in a time that does not tell how far they are."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
