"""Write the reference pages that repeat what the code says: settings, exit codes, metrics.

``python -m scripts.reference`` rewrites them; a test says whether they are current.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from Daddy.core.errors import ExitCode
from Daddy.core.metrics import METRICS
from Daddy.core.settings import RENAMED, WITHOUT_MEANING, Config

DOCS = Path(__file__).resolve().parents[1] / "docs"

MEANINGS: dict[ExitCode, tuple[str, str]] = {
    ExitCode.DONE: ("done; for `status`: healthy", "nothing"),
    ExitCode.BUG: ("a bug of ours", "report the traceback"),
    ExitCode.USAGE: (
        "the command line cannot be carried out as typed",
        "read the message, `--help`",
    ),
    ExitCode.CONFIGURATION: (
        "a setting is wrong, unknown or cannot be met here",
        "correct what the message lists",
    ),
    ExitCode.SCHEDULER: ("the scheduler refused or cannot be asked", "see `squeue`, try again"),
    ExitCode.CONTROLLER_ALIVE: ("another controller holds this run", "use `status`, or `stop` it"),
    ExitCode.WEIGHTS: ("shared weights are missing, damaged or refused", "pull again"),
    ExitCode.ROM: ("the ROM or a save state is missing, wrong or refused", "name the right file"),
    ExitCode.NETWORK: (
        "a host or a port cannot be used",
        "check the tunnel, the port, the network",
    ),
    ExitCode.FILES: ("a file or folder cannot be read or written", "check path, rights and space"),
    ExitCode.DRAINED: ("a learner left in good order and can be continued", "nothing: it is"),
    ExitCode.NOT_NEEDED: ("a job found no free slot", "nothing: a successor too many"),
    ExitCode.DEGRADED: ("`status`: some slots are not training", "read the reasons"),
    ExitCode.DOWN: ("`status`: no controller, no job", "`start`"),
    ExitCode.UNKNOWN: ("`status`: the scheduler is silent", "the last known state is shown"),
    ExitCode.DO_NOT_RESTART: ("a learner must not be started again as it is", "read its log"),
    ExitCode.INTERRUPTED: ("interrupted from the keyboard", "nothing"),
}


def exit_codes() -> str:
    """The page of exit codes."""
    rows = "\n".join(f"| {int(code)} | {what} | {fix} |" for code, (what, fix) in MEANINGS.items())
    return (
        "# Exit codes\n\nEvery command of ours leaves with one of these.\n\n"
        f"| code | meaning | what to do |\n| --- | --- | --- |\n{rows}\n"
    )


def metrics() -> str:
    """The page of metrics."""
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in METRICS.items())
    return (
        "# Metrics\n\nWhat a learner's `metric` events and its TensorBoard files hold.\n\n"
        f"| name | meaning |\n| --- | --- |\n{rows}\n"
    )


def configuration() -> str:
    """The page of settings."""
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
    parts.append(_foreign_keys())
    return "\n".join(parts)


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


def _foreign_keys() -> str:
    renamed = "\n".join(f"- `{old}` is read as `{new}`" for old, new in RENAMED.items())
    silent = ", ".join(f"`{key}`" for key in WITHOUT_MEANING)
    return (
        "## Keys of older configurations\n\n"
        f"{renamed}\n\nAccepted with one warning, without effect: {silent}.\n"
    )


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        DOCS / "configuration.md": configuration(),
        DOCS / "exit-codes.md": exit_codes(),
        DOCS / "metrics.md": metrics(),
    }


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
        print(page.name)
