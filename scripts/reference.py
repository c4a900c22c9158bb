"""Writes the reference pages that are generated: settings, exit codes, metrics, commands.

``python -m scripts.reference`` rewrites them; a test fails if they are not current.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from Daddy.core.errors import ExitCode
from Daddy.core.settings import (
    PROFILES,
    REMOVED,
    RENAMED,
    SHIPPED_VALUES,
    TUNED,
    WITHOUT_MEANING,
    Config,
)

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMMANDS = Path(__file__).with_name("examples") / "commands.json"

MEANINGS: dict[ExitCode, tuple[str, str]] = {
    ExitCode.DONE: ("done; for `status`: healthy", "nothing"),
    ExitCode.BUG: ("a bug in Daddy", "report the traceback"),
    ExitCode.USAGE: (
        "the command line is wrong",
        "read the message, `--help`",
    ),
    ExitCode.CONFIGURATION: (
        "a setting is wrong, unknown or not possible on this machine",
        "correct the settings that the message lists",
    ),
    ExitCode.SCHEDULER: (
        "the scheduler refused or does not answer",
        "check with `squeue`, try again",
    ),
    ExitCode.CONTROLLER_ALIVE: (
        "another controller holds this run and cannot do this; another process drives this sweep",
        "use `status`, or `stop` it",
    ),
    ExitCode.WEIGHTS: ("shared weights are missing, damaged or refused", "pull again"),
    ExitCode.ROM: (
        "the ROM, a save state or a recording is missing, wrong or refused, or does not verify",
        "name the right file",
    ),
    ExitCode.NETWORK: (
        "a host or a port cannot be used",
        "check the tunnel, the port, the network",
    ),
    ExitCode.FILES: (
        "a file or folder cannot be read or written",
        "check path, permissions and space",
    ),
    ExitCode.DRAINED: (
        "a learner wrote its checkpoint and exited; it can be continued",
        "nothing: the controller continues it",
    ),
    ExitCode.NOT_NEEDED: ("a job found no free slot", "nothing: it was not needed"),
    ExitCode.NOT_CONFINED: (
        "nothing on this machine confines a sandbox, or a sandbox ended by itself",
        "type the line that the message shows",
    ),
    ExitCode.PARTLY_FAILED: (
        "the command is done, but some of its sandboxes, trials, grades or episodes failed",
        "read `errors.log` (`--resume` runs what is missing), `result.json`, `Daddy.sweep_report`",
    ),
    ExitCode.PACKAGES_MISSING: (
        "packages of the Python environment are missing: an extra, or files that were purged",
        "type the line that the message shows; then `start` if a run is paused",
    ),
    ExitCode.NOT_LEARNT: (
        "`scripts/demo`: the run ended and its agents did not learn",
        "read the sentence at its end; run it again",
    ),
    ExitCode.DEGRADED: (
        "`status`: a slot is idle, no job can start, no controller or node runs; paused, stopping",
        "read the reasons",
    ),
    ExitCode.DOWN: ("`status`: no controller, no job; no nodes", "`start`"),
    ExitCode.UNKNOWN: (
        "`status`: the scheduler does not answer",
        "the last known state is shown",
    ),
    ExitCode.NO_RELAY: (
        "`tunnel_server --wait S`: no relay connected within S seconds",
        "start the ssh line; `run_controller status`",
    ),
    ExitCode.REFUSED: (
        "`tunnel_server --wait S`: relays came with another token or protocol version",
        "copy the token (`sync_weights.sh setup`), or update",
    ),
    ExitCode.DO_NOT_RESTART: (
        "a learner's policy collapsed, and again after it was restarted; its slot stays empty",
        "read the figures in `status` or in its log, lower `training.learning_rate`, `start`",
    ),
    ExitCode.INTERRUPTED: ("interrupted from the keyboard", "nothing"),
}


GAUGES = """\
## A collapsed policy

After each update a learner measures the updated policy on 128 steps of the rollout
([decision 41](decisions/41-policy-collapse.md)):

| figure | bound |
| --- | --- |
| entropy | at least 0.1 % of the logarithm of the number of actions: 0.0019 for seven |
| KL divergence of the update | at most that logarithm: 1.95 for seven |
| value loss | at most 1,250; with raw rewards, times the square of `reward_scale` (1 at least) |
| gradient | finite in at least one minibatch |

While a figure is out of bounds the learner publishes nothing, writes no checkpoint, and says so
(event `error`). Once ten more updates were out of bounds than within, the policy counts as
collapsed: the learner takes the newest shared version with new moments of Adam; environments and
counters go on. Without shared weights it takes its newest checkpoint's policy, or the weights that
it began with. If the policy collapses again, the learner ends with exit code 93 and the figures;
its slot stays empty until the next `start`. A laptop with `--contribute` does the same.

## Reading the metrics

`python -m scripts.page runs/NAME` draws a run as one picture from its events. TensorBoard also has
a point `milestone/NAME` at the step at which a learner's agents first reached the milestone
(`milestone_assisted/NAME`: after an assist had acted); its value is that step. The events have it
as `progress` with its time; of several learners and restarts the earliest counts.

- `entropy` begins near the logarithm of the number of actions (1.95 for seven) and falls slowly. At
  0 the policy always chooses the same action: raise `training.entropy`.
- `approx_kl` of 0.003 to 0.03 and a `clip_fraction` of 0.05 to 0.3 are usual. Far above, lower the
  learning rate or `update_epochs`; far below, most samples change nothing.
- `explained_variance` rises towards 1 as the critic learns to predict returns; if it stays below
  0, check the value loss.
- `skipped_minibatches` should be 0, `gradient_norm` of the order of `max_grad_norm`.
- `emulation_share`, `inference_share` and `learning_share` are the loop's time without sharing
  weights, checkpoints and logs. Environments step while the policy acts for other groups, so
  `emulation_share` is only the waiting that remains: the most that faster emulators can save.
- `loop_share` is about 0.75 for a random walk (cartridge) and falls as agents learn to walk to new
  places. If `coverage` does not grow while it is high, agents walk in circles.
"""


def exit_codes() -> str:
    """Return the page of exit codes."""
    rows = "\n".join(f"| {int(code)} | {what} | {fix} |" for code, (what, fix) in MEANINGS.items())
    return (
        "# Exit codes\n\nEvery command exits with one of these codes.\n\n"
        f"| code | meaning | what to do |\n| --- | --- | --- |\n{rows}\n"
    )


CLASSES = """\
| class | meaning |
| --- | --- |
| run | works as typed |
| run small | the tests type it with a size added; its own meaning is compared with the document's |
| plan | begins here, prints how long it takes, and goes on with `--resume` after Ctrl-C |
| engine | needs Docker; the code and output are of the line that does the same without it |
| install | downloads: typed once by hand on Linux, not by the tests |
"""


def commands() -> str:
    """Return the page of the documents' command lines. A test types each row that has a code."""
    rows = "\n".join(_command_row(row) for row in json.loads(COMMANDS.read_text()))
    return (
        "# Commands of the four documents\n\nEvery command line of the documents that this product "
        "follows, typed in `scripts/examples`.\n\n"
        f"{CLASSES}\n| document | line | class | exit code | output begins with | typed here |\n"
        f"| --- | --- | --- | --- | --- | --- |\n{rows}\n"
    )


def _command_row(row: Mapping[str, object]) -> str:
    line, first = f"`{row['line']}`", f"`{row['first']}`" if "first" in row else ""
    here = f"`{row['typed']}`" if "typed" in row else row.get("here", "")
    cells = (row["document"], line, row["class"], row.get("exit", ""), first, here)
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def metrics() -> str:
    """Return the page of metrics."""
    from Daddy.learning.learner_reporting import METRICS  # which imports torch

    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in METRICS.items())
    return (
        "# Metrics\n\nContents of a learner's `metric` events and of its TensorBoard files.\n\n"
        f"| name | meaning |\n| --- | --- |\n{rows}\n\n{GAUGES}"
    )


def configuration() -> str:
    """Return the page of settings."""
    parts = [
        (
            "# Configuration\n\nA JSON file (`Daddy/cluster/cluster_config.json` unless `--config` "
            "names another), overridden by a site profile (`--site`, `DADDY_SITE`: "
            "`cluster/sites/NAME.json`), by environment variables (`DADDY_ROM`, "
            "`DADDY_TRAINING__NUM_ENVS=4`) and by flags, in this order. An unknown key is an error "
            "that "
            "names the nearest valid one.\n"
        ),
        _section("Run", Config),
    ]
    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            parts.append(_section(f"`{name}`", inner))
    parts += [_profile(name, values) for name, values in PROFILES.items()]
    parts.append(_tuned())
    parts.append(_foreign_keys())
    return "\n".join(parts)


def _tuned() -> str:
    rows = "\n".join(f"| `{key}` | `{value}` |" for key, value in TUNED.items())
    lines = ", ".join(f"`{key}`" for key in SHIPPED_VALUES)
    return (
        "## The tuned recipe\n\n`start` gives these values, and those of the profile, to a new run "
        "of the real game on `cuda`, where nobody set the key, and prints both values of each. "
        f"{lines} in the shipped file count as not set while they are unchanged; everywhere "
        "else they are what you set. A run that has learnt keeps its own values.\n\n"
        f"| key | value |\n| --- | --- |\n{rows}\n"
    )


def _section(title: str, model: type[BaseModel]) -> str:
    rows = "\n".join(_rows(model))
    return f"## {title}\n\n| key | default | meaning |\n| --- | --- | --- |\n{rows}\n"


def _rows(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield f"| `{name}` | | section, see below |"
        else:
            yield f"| `{name}` | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return "" if value is None else f"`{value}`"


def _profile(name: str, values: Mapping[str, object]) -> str:
    rows = "\n".join(f"| `{key}` | {_value(value)} |" for key, value in values.items())
    return (
        f"## The profile `{name}`\n\n`training.profile: {name}` sets these values of "
        "`training`. They replace those of earlier layers (a site profile's yield to the config "
        "file's); keys in the same layer, and later layers, win.\n\n"
        f"| key | value |\n| --- | --- |\n{rows}\n"
    )


def _value(value: object) -> str:
    return "open" if value is None else f"`{value}`"


def _foreign_keys() -> str:
    renamed = "\n".join(f"- `{old}` is read as `{new}`" for old, new in RENAMED.items())
    silent = ", ".join(f"`{key}`" for key in (*WITHOUT_MEANING, *REMOVED))
    return (
        "## Keys of older configurations\n\n"
        f"{renamed}\n\nAccepted with one warning, without effect: {silent}.\n"
    )


def pages() -> dict[Path, str]:
    """Return every generated page with its text."""
    return {
        DOCS / "commands.md": commands(),
        DOCS / "configuration.md": configuration(),
        DOCS / "exit-codes.md": exit_codes(),
        DOCS / "metrics.md": metrics(),
    }


if __name__ == "__main__":
    argparse.ArgumentParser(prog="scripts.reference", description=__doc__).parse_args()
    for page, text in pages().items():
        page.write_text(text)
        print(page.name)
