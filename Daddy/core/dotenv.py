"""Reads ``.env``: variables, such as a vendor's key, that lie beside a program instead of a shell.

No message shows a value.
"""

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from Daddy.core.errors import ConfigError

NAME = ".env"
_ASSIGNMENT = re.compile(
    r"""(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*
    (?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>(?:[^'"\s].*?)?))
    (?:\s+\#.*)?\s*""",
    re.VERBOSE | re.ASCII,
)


def load_dotenv(folder: Path, environment: MutableMapping[str, str]) -> list[str]:
    """Set the variables of ``.env`` in `folder` that `environment` lacks; return their names.

    An empty value counts as not written. ConfigError for a line that is no assignment.
    """
    path = folder / NAME
    if not path.is_file():
        return []
    found = dict(_assignments(path))
    missing = [name for name, value in found.items() if value and name not in environment]
    environment.update({name: found[name] for name in missing})
    return missing


def _assignments(path: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", "write it anew") from error
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        if (match := _ASSIGNMENT.fullmatch(text)) is None:
            raise ConfigError(f"{path}, line {number}: no NAME=VALUE", "correct or remove the line")
        yield match["name"], match["single"] or match["double"] or match["bare"] or ""
