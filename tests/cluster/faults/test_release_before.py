"""Tests that a run of the previous release continues under this one, and falls back to it."""

import json
from pathlib import Path

from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.release_build import Release
from Daddy.core.lease import read_lease
from Daddy.core.load_config import config_to_json
from tests.cluster.faults.site import Login, Site

BEFORE = Path(__file__).parents[2] / "core" / "config_of_the_release_before.json"


def told_as_before(login: Login) -> bytes:
    """Return this run's configuration with every key that the previous release wrote."""
    ours, theirs = json.loads(config_to_json(login.config)), json.loads(BEFORE.read_text())
    for name, section in theirs.items():
        if isinstance(section, dict):
            ours[name] = {**section, **ours.get(name, {})}
    return json.dumps(ours).encode()


def held_by(login: Login, slot: int) -> str:
    view = read_lease(login.run.slot(slot).lease)
    assert view is not None
    return str(view.holder["release"])


def test_a_release_that_dies_is_given_up_for_a_frozen_one_of_the_release_before(
    site: Site, login: Login
) -> None:
    login.release.config.write_bytes(told_as_before(login))
    login.settle()
    login.release = Release("r2", login.run.releases / "r2")
    login.release.path.mkdir()
    login.release.config.write_bytes(config_to_json(login.config))
    login.intend(Mode.RUN)
    login.start()
    for node in site.jobs("RUNNING"):
        if len({held_by(login, slot) for slot in range(4)}) == 1:
            site.node_dies(node["node"])
            login.drive(60.0)
    for _ in range(60):
        for learner in list(site.learners.values()):
            if held_by(login, learner.slot) == "r2":
                site.finish(learner.job_id, "FAILED", exit_code=1)
        login.drive(30.0)
    assert "given up for r1" in login.said()
    assert site.training == 4
    assert {held_by(login, slot) for slot in range(4)} == {"r1"}
    assert site.twice() == []
