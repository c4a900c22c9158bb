"""The machine of a fake vendor: a folder that commands see as their root, in bubblewrap."""

from collections.abc import Sequence
from pathlib import Path

LINKS = ("bin", "sbin", "lib", "lib64")


def bwrap_argv(root: Path, extra: Sequence[str] = (), folder: str = "/") -> list[str]:
    """Return the begin of a command line that runs a program there, without network."""
    for name in ("tmp", "var/tmp", "dev", "proc", "usr", "run", "files"):
        (root / name).mkdir(parents=True, exist_ok=True)
    argv = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    argv += ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--uid", "1000", "--gid", "1000"]
    argv += ["--bind", str(root), "/", "--ro-bind", "/usr", "/usr"]
    for name in LINKS:
        if Path("/", name).is_symlink():
            argv += ["--symlink", f"usr/{name}", f"/{name}"]
    return [*argv, "--proc", "/proc", "--dev", "/dev", *extra, "--chdir", folder, "--"]
