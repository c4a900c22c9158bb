"""Pure. Chooses the backend that a run requests, or names the line that installs one.

``auto`` takes the first local backend that confines and never leaves the machine: with a vendor's
key set it only names the flag. Generated code runs on a backend that confines partly or not at all
only if the person allows it for this run.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from Daddy.core.errors import ConfigError, SandboxError, UsageError
from Daddy.sandbox.sandbox_interfaces import Isolation

Requested = Literal["auto", "bubblewrap", "apptainer", "docker", "daytona", "process"]

VENDORS = {"daytona": "DAYTONA_API_KEY"}
"""Backend of a vendor → the variable with its key."""
INSTALLERS = {
    "apt": "sudo apt install bubblewrap",
    "dnf": "sudo dnf install bubblewrap",
    "pacman": "sudo pacman -S bubblewrap",
    "zypper": "sudo zypper install bubblewrap",
}
"""Package tool → the line that installs bubblewrap."""
_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\n"
    "profile bwrap {path} flags=(unconfined) {{ userns, }}\\n'"
    " | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
)
"""Lets bubblewrap make user namespaces where AppArmor forbids them (Ubuntu since 23.10)."""
_MAC = "brew install --cask docker && open -a Docker"
_UNSAFE = "--allow-unsafe"


@dataclass(frozen=True)
class BackendFacts:
    """Tells what is on this machine.

    `system` is `platform.system()`; `bwrap` the path of bubblewrap's program, `bwrap_error` the
    line it printed when it did not start; `keys` the names of the environment's variables with a
    vendor's key; `installer` the machine's package tool. `userns_clone`, `max_namespaces` and
    `apparmor_restricts` are settings of the kernel: None and False where it has none.
    """

    system: str = "Linux"
    bwrap: str = ""
    bwrap_error: str = ""
    apptainer: bool = False
    docker: bool = False
    keys: frozenset[str] = frozenset()
    installer: str = ""
    userns_clone: bool | None = None
    max_namespaces: int | None = None
    apparmor_restricts: bool = False

    def works(self, backend: str) -> bool:
        """Return True if the backend can make a sandbox here."""
        return {
            "bubblewrap": self.system == "Linux" and bool(self.bwrap) and not self.bwrap_error,
            "apptainer": self.apptainer,
            "docker": self.docker,
            "daytona": VENDORS["daytona"] in self.keys,
            "process": True,
        }[backend]


@dataclass(frozen=True)
class BackendChoice:
    """Names a backend, the reason, and a hint (or nothing)."""

    name: str
    reason: str
    hint: str = ""


def choose_backend(
    requested: str, facts: BackendFacts, *, allow_unsafe: bool = False
) -> BackendChoice:
    """Return the backend that is requested.

    Raises SandboxError if auto finds none that confines, ConfigError for an absent engine or key,
    UsageError for another name.
    """
    if requested not in get_args(Requested):
        known = ", ".join(get_args(Requested))
        raise UsageError(f"there is no backend {requested!r}", f"choose one of: {known}")
    return _automatic(facts, allow_unsafe) if requested == "auto" else _explicit(requested, facts)


def require_isolation(
    backend: str, isolation: Isolation, generated: bool, allow_unsafe: bool
) -> None:
    """Raise SandboxError where commands are confined too little and the person does not allow it.

    `generated` code comes from a model, and is to be confined wholly; other code is the person's.
    """
    if not allow_unsafe and isolation.level in ("none", "partly" if generated else "none"):
        how = "does not confine" if isolation.level == "none" else "confines only partly"
        missing = f" (missing: {', '.join(isolation.missing)})" if isolation.missing else ""
        why = ", and this run executes generated code" if generated else ""
        raise SandboxError(
            f"the backend {backend} {how}{missing}{why}",
            f"use --backend bubblewrap, or add {_UNSAFE} to this run",
        )


def install_hint(facts: BackendFacts) -> tuple[str, str]:
    """Return the reason for which bubblewrap does not work here, and the line that changes it."""
    if facts.system != "Linux":
        return f"bubblewrap needs Linux, and this is {facts.system}", _MAC
    if not facts.bwrap:
        line = INSTALLERS.get(facts.installer, "install the package bubblewrap")
        return "bubblewrap is not installed", line
    if facts.apparmor_restricts:
        return "AppArmor forbids user namespaces", _PROFILE.format(path=facts.bwrap)
    if facts.userns_clone is False:
        return "user namespaces are off", "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if facts.max_namespaces == 0:
        return "user namespaces are off", "sudo sysctl -w user.max_user_namespaces=15000"
    said = facts.bwrap_error or "no error"
    return f"bubblewrap does not start: {said}", f"{facts.bwrap} --unshare-all --ro-bind / / true"


def _automatic(facts: BackendFacts, allow_unsafe: bool) -> BackendChoice:
    hint = _vendor_hint(facts)
    for name in ("bubblewrap", "apptainer", "docker"):
        if facts.works(name):
            why = "it works here"
            if name != "bubblewrap":
                why = f"{install_hint(facts)[0]}; {name} {why}"
            return BackendChoice(name, why, hint)
    why, line = install_hint(facts)
    if allow_unsafe:
        return BackendChoice("process", f"{why}; {_UNSAFE} allows it", hint)
    raise SandboxError(f"nothing on this machine confines commands: {why}", line)


def _explicit(requested: str, facts: BackendFacts) -> BackendChoice:
    if facts.works(requested):
        return BackendChoice(requested, f"--backend {requested} asks for it")
    if requested == "bubblewrap":
        raise SandboxError(*install_hint(facts))
    if requested in VENDORS:
        raise ConfigError(
            f"--backend {requested} needs a key, and {VENDORS[requested]} is not set",
            f"set {VENDORS[requested]}, or run on this machine with --backend auto",
        )
    absent = "no Docker engine answers" if requested == "docker" else "Apptainer is not installed"
    raise ConfigError(f"--backend {requested}: {absent}", "start it, or use --backend auto")


def _vendor_hint(facts: BackendFacts) -> str:
    named = [
        f"{key} is set: --backend {v} runs there" for v, key in VENDORS.items() if key in facts.keys
    ]
    return "; ".join(named)
