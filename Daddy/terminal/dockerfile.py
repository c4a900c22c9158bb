"""Pure. Parses a Dockerfile into what an image without an engine can be made of.

The base maps to an image of Debian's packages, to which ``RUN apt-get install`` adds, and
``RUN pip install`` gets its wheels from outside. Other commands of RUN, and COPY, ENV and WORKDIR,
become steps in a sandbox without network. All else is refused by its line, but for instructions
that change no file (CMD, LABEL, EXPOSE).
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from Daddy.core.errors import ConfigError
from Daddy.core.humanize import printable_line

_DEBIAN = {"12": "12", "bookworm": "12", "13": "13", "trixie": "13", "stable": "13", "latest": "13"}
_UBUNTU = {"22.04": "12", "jammy": "12", "24.04": "13", "noble": "13", "latest": "13"}
"""Release of Ubuntu → the Debian with the nearest versions of its packages."""
_PYTHON = {"3": "13", "3.10": "12", "3.11": "12", "3.12": "13", "3.13": "13", "latest": "13"}
"""Version of Python → the Debian with the nearest one: 3.11 or 3.13."""
_REGISTRY = re.compile(r"(docker\.io/|public\.ecr\.aws/docker/)?(library/)?")
_UV = re.compile(r"--from=ghcr\.io/astral-sh/uv(?::(\d+\.\d+\.\d+))?\S*\s.*")
_ALWAYS = ("tmux", "util-linux")
"""Packages over those of every image: the terminal, and what Debian's own base has besides."""
_WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "SHELL"}
_OF_APT = re.compile(r"apt(-get)?\s+(-\S+\s+)*(update|clean|autoremove|upgrade)\b.*")
_OF_LISTS = re.compile(r"rm\s+-r?f?r?\s+/var/lib/apt/lists/?\*?")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_FLAGS_OF_APT = re.compile(r"-y|-q+|-qy|-yq|--yes|--quiet|--no-install-(recommends|suggests)")
_FLAGS_OF_PIP = re.compile(
    r"-m|-U|-q|--(system|upgrade|quiet|no-cache(-dir)?|break-system-packages"
    r"|root-user-action=ignore)"
)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?([=<>~!]=?[\w.*]+)?")


@dataclass(frozen=True)
class BuildStep:
    """One step in the sandbox: a shell command, or a copy of `sources` to `target`.

    `wheels` are the packages that pip installs in it. `folder` and `env` are those that the
    Dockerfile has set by its `line`.
    """

    kind: Literal["run", "copy"]
    line: int
    folder: str
    env: Mapping[str, str]
    command: str = ""
    sources: tuple[str, ...] = ()
    target: str = ""
    wheels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """An image, the steps on it, and the folder and environment of commands."""

    image: str
    steps: tuple[BuildStep, ...] = ()
    folder: str = "/"
    env: Mapping[str, str] | None = None


def map_image(base: str, packages: tuple[str, ...] = ()) -> str:
    """Return our image for a base as FROM names it; raises ValueError for others."""
    name, _, tag = _REGISTRY.sub("", base.partition("@")[0], count=1).partition(":")
    known = {"debian": _DEBIAN, "ubuntu": _UBUNTU, "python": _PYTHON}.get(name)
    if known is None:
        raise ValueError("bases are debian:*, ubuntu:* and python:*")
    version, *variants = (tag or "latest").split("-")
    release = known.get(".".join(version.split(".")[: 1 if name == "debian" else 2]))
    if release is None:
        raise ValueError(f"known here are {', '.join(known)}")
    if version in ("3", "latest"):
        release = next((_DEBIAN[word] for word in variants if word in _DEBIAN), release)
    return "+".join([f"debian:{release}", *sorted({*_ALWAYS, *packages})])


def parse_dockerfile(text: str, name: str = "environment/Dockerfile") -> Recipe:
    """Return the recipe of a Dockerfile. Raises ConfigError that names the line it refuses."""
    parser = _Parser()
    for line, word, rest in _instructions(text):
        try:
            parser.take(line, word.upper(), rest)
        except ValueError as error:
            shown = printable_line(f"{word} {rest}", 80)
            raise ConfigError(
                f"{name}, line {line}: {shown}: {error}",
                "change this line, or unpack the finished image and name it: --image dir:PATH",
            ) from error
    if not parser.base:
        raise ConfigError(f"{name} has no FROM", "begin it with FROM debian:12")
    image = map_image(parser.base, tuple(parser.packages))
    return Recipe(image, tuple(parser.steps), parser.folder, parser.env)


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, instruction and arguments, with continued lines joined."""
    pending, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (pending and not line.strip()):
            continue
        began = began if pending else number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        word, _, rest = pending.strip().partition(" ")
        pending = ""
        if word:
            yield began, word, rest.strip()
    if pending.strip():
        word, _, rest = pending.strip().partition(" ")
        yield began, word, rest.strip()


class _Parser:
    """Takes instructions in their order; raises ValueError with the reason of a refusal."""

    def __init__(self) -> None:
        self.base, self.folder = "", "/"
        self.env: dict[str, str] = {}
        self.steps: list[BuildStep] = []
        self.packages: list[str] = []
        self._arguments: dict[str, str] = {}

    def take(self, line: int, word: str, rest: str) -> None:
        if word in _WITHOUT_EFFECT:
            return
        method = getattr(self, f"_take_{word.lower()}", None)
        if method is None:
            raise ValueError(f"{word} is not supported")
        method(line, rest)

    def _expand(self, text: str) -> str:
        known = {**self._arguments, **self.env}

        def value(found: "re.Match[str]") -> str:
            return known.get(found[1] or found[3], found[2] or "")

        return re.sub(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))", value, text)

    def _take_from(self, _line: int, rest: str) -> None:
        if self.base:
            raise ValueError("an image of several stages is not supported")
        words = [word for word in self._expand(rest).split() if not word.startswith("--platform=")]
        self.base = words[0] if words else ""
        map_image(self.base)

    def _take_arg(self, _line: int, rest: str) -> None:
        name, _, value = rest.partition("=")
        self._arguments.setdefault(name.strip(), self._expand(" ".join(shlex.split(value))))

    def _take_env(self, _line: int, rest: str) -> None:
        words = shlex.split(rest)
        if words and "=" not in words[0]:
            words = [f"{words[0]}={' '.join(words[1:])}"]
        before = [
            (name, self._expand(value)) for name, _, value in (w.partition("=") for w in words)
        ]
        self.env.update(before)

    def _take_workdir(self, line: int, rest: str) -> None:
        self.folder = self._absolute(rest)
        self._add(BuildStep("run", line, "/", {}, f"mkdir -p {shlex.quote(self.folder)}"))

    def _take_user(self, _line: int, rest: str) -> None:
        if rest.split(":", maxsplit=1)[0] not in ("root", "0"):
            raise ValueError("commands run as root, which is nobody outside")

    def _take_copy(self, line: int, rest: str) -> None:
        if uv := _UV.fullmatch(rest):
            self._take_run(line, "pip install uv" + (f"=={uv[1]}" if uv[1] else ""))
            return
        words = _read_list(rest) if rest.startswith("[") else shlex.split(rest)
        words = [self._expand(word) for word in words]
        if flags := [word for word in words if word.startswith("--")]:
            raise ValueError(f"{flags[0]} is not supported")
        *sources, target = words
        if not sources or any(".." in source.split("/") for source in sources):
            raise ValueError("it names no source in environment/")
        several = len(sources) > 1 or target.endswith("/")
        target = self._absolute(target) + ("/" if several else "")
        names = tuple(source.strip("/").removeprefix("./") for source in sources)
        self._add(BuildStep("copy", line, self.folder, {}, sources=names, target=target))

    def _take_run(self, line: int, rest: str) -> None:
        if rest.startswith(("--", "<<")):
            raise ValueError(f"{rest.split(maxsplit=1)[0]} is not supported")
        command = shlex.join(_read_list(rest)) if rest.startswith("[") else rest
        left, wheels = [], list[str]()
        for part in re.split(r"\s*&&\s*", command):
            if re.match(r"(uv |python3? -m )?pip3? install\b", part):
                names = _read_names(part, _REQUIREMENT, _FLAGS_OF_PIP)
                wheels += names
                self.packages.append("python3-pip")
                part = shlex.join(["python3", "-m", "pip", "install", "-q", *names])  # noqa: PLW2901
            if re.match(r"apt(-get)?\b.* install\b", part):
                self.packages += _read_names(part, _PACKAGE, _FLAGS_OF_APT)
                continue
            if not _OF_APT.fullmatch(part) and not _OF_LISTS.fullmatch(part):
                left.append(part)
        if left:
            done = " && ".join(left)
            env = dict(self.env)
            self._add(BuildStep("run", line, self.folder, env, done, wheels=tuple(wheels)))

    def _add(self, step: BuildStep) -> None:
        if not self.base:
            raise ValueError("it comes before FROM")
        self.steps.append(step)

    def _absolute(self, path: str) -> str:
        path = self._expand(path.strip().strip("\"'"))
        whole = path if path.startswith("/") else f"{self.folder}/{path}"
        parts = [part for part in whole.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(".. in a path is not supported")
        return "/" + "/".join(parts)


def _read_list(text: str) -> list[str]:
    words = json.loads(text)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError("it is no list of texts")
    return list(words)


def _read_names(command: str, form: "re.Pattern[str]", flags: "re.Pattern[str]") -> list[str]:
    words = shlex.split(command)
    if wrong := [word for word in words if word[:1] == "-" and not flags.fullmatch(word)]:
        raise ValueError(f"{wrong[0]} is not supported")
    names = [word for word in words[words.index("install") + 1 :] if word[:1] != "-"]
    for name in names:
        if not form.fullmatch(name):
            raise ValueError(f"{name!r} names no package, or no version that can be chosen")
    return names
