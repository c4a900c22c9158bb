"""Fixtures: a simulated site, with commands answered in this process or by real processes."""

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
    """Return a folder in memory if possible: virtual hours write thousands of small files."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="daddy-faults-", dir=place))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=["pool", "chain"])
def site(folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Site:
    """Return a site that the shim answers in this process, with and without readable limits."""
    made = Site(folder)
    answer_in_process(monkeypatch, made)
    if request.param == "pool":
        made.tell_limits()
    return made


@pytest.fixture
def pool(site: Site) -> Site:
    """Return a site with readable limits."""
    site.tell_limits()
    return site


@pytest.fixture
def login(site: Site) -> Login:
    return Login(site)


@pytest.fixture
def shims(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a site whose commands are real processes on PATH."""
    monkeypatch.setenv("PATH", f"{link_commands(folder)}:{os.environ['PATH']}")
    return Site(folder)
