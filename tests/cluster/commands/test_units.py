"""The lines that a person puts into a crontab or a systemd folder."""

from __future__ import annotations

import configparser
import shlex

from Daddy.cluster.orchestrator.commands.units import crontab_line, units

ARGV = ["/opt/python 3/bin/python", "-m", "x.run_controller", "ensure", "--config", "/a/100%.json"]


def test_the_crontab_line_runs_the_command_every_five_minutes() -> None:
    line = crontab_line(ARGV, "/shared/a da", "/shared/a da/ensure.log")
    assert line.startswith("*/5 * * * * cd '/shared/a da' && ")
    command = line.replace("\\%", "%").split("&& ", 1)[1].split(" >> ")[0]
    assert shlex.split(command) == ARGV


def test_a_per_cent_sign_does_not_end_the_command() -> None:
    assert "100\\%.json" in crontab_line(ARGV, "/", "/l")


def test_the_systemd_units_say_the_same() -> None:
    text = units(ARGV, "/shared/ada", "/l", "slim_run")
    service = text[
        text.index("[Unit]") : text.index("# ~/.config/systemd/user/daddy-slim_run.timer")
    ]
    parsed = configparser.RawConfigParser()
    parsed.read_string(service)
    assert parsed["Service"]["execstart"].startswith('"/opt/python 3/bin/python" "-m"')
    assert '"/a/100%%.json"' in parsed["Service"]["execstart"]
    assert parsed["Service"]["killmode"] == "process"  # the daemon outlives the service
    assert "OnUnitActiveSec=5min" in text
