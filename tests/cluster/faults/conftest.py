"""A site on paper for each test: commands answered in process, or by real processes on PATH."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.faults.site import Login, Site, answer_in_process, link_commands

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: virtual hours write thousands of small files."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="daddy-faults-", dir=place))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=["pool", "chain"])
def site(folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Site:
    """Answered by the shim in this process; the site's limits can be read, or cannot."""
    made = Site(folder)
    answer_in_process(monkeypatch, made)
    if request.param == "pool":
        made.tell_limits()
    return made


@pytest.fixture
def pool(site: Site) -> Site:
    """A site whose limits can be read."""
    site.tell_limits()
    return site


@pytest.fixture
def login(site: Site) -> Login:
    return Login(site)


@pytest.fixture
def shims(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The same commands as real processes, found on PATH."""
    monkeypatch.setenv("PATH", f"{link_commands(folder)}:{os.environ['PATH']}")
    return Site(folder)
