"""A laptop's home, and a home on a real sshd that knows keys by its authorized_keys lines."""

import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.components import program
from tests.patience import PATIENCE_S
from tests.weights.login import SCRIPT, Login, running_sshd

OLD_TUNNEL = (
    'restrict,port-forwarding,permitlisten="localhost:9999",permitopen="localhost:1",'
    'command="cat >/dev/null; false"'
)
"""Options of the tunnel key's line in the release before."""

FLAGS = ("--times", "--timeout=30")


@dataclass
class Laptop:
    """Anna's laptop: its home, and her account on the cluster."""

    login: Login
    home: Path

    @property
    def there(self) -> Path:
        return self.login.folder / "home"

    @property
    def shared(self) -> Path:
        return self.there / "run" / "shared_weights"

    @property
    def local(self) -> Path:
        return self.home / "shared_weights"

    @property
    def keys(self) -> Path:
        return self.home / ".config" / "daddy" / "keys"

    @property
    def authorized(self) -> Path:
        return self.there / ".ssh" / "authorized_keys"

    def environment(self, **changes: str) -> dict[str, str]:
        told = {"DADDY_PYTHON": sys.executable, "SYNC_USER_ID": "anna"}
        return {**self.login.environment(self.home, self.shared), **told, **changes}

    def sync(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return run([str(SCRIPT), *words], env=self.environment(**changes))

    def append(self, said: str) -> None:
        """Paste the command that setup printed into a shell."""
        command = next(line for line in said.splitlines() if "cat >>.ssh" in line)
        done = run(["sh", "-c", command], env=self.environment())
        assert done.returncode == 0, done.stderr

    def rsync(self, key: str, *words: str) -> subprocess.CompletedProcess[str]:
        return run(["rsync", "-e", shlex.join(self.ssh(key)), *FLAGS, *words])

    def ssh(self, key: str) -> list[str]:
        """Return ssh with this key and no other."""
        path = self.home / "bare_config"
        path.write_text(re.sub(r" *IdentityFile .*\n", "", self.login.config.read_text()))
        options = ("-F", str(path), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes")
        return ["ssh", *options, "-i", str(self.keys / key)]

    @contextlib.contextmanager
    def own_login_shut_out(self) -> Iterator[None]:
        """Remove her own key from the cluster while the body runs."""
        path = self.login.folder / "authorized_keys"
        text = path.read_text()
        path.write_text("")
        try:
            yield
        finally:
            path.write_text(text)


def run(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextlib.contextmanager
def a_laptop(folder: Path, settings: str = "") -> Iterator[Laptop]:
    """Yield a laptop; its person's own login may do anything in its home on the cluster.
    ``settings``: lines for sshd_config.
    """
    program("rsync", "rsync")
    with running_sshd(folder / "login", program("sshd", "openssh-server"), settings) as login:
        found = Laptop(login, folder / "home")
        found.home.mkdir()
        found.there.mkdir()
        _come_home(login.folder / "authorized_keys", found.there)
        yield found


def _come_home(authorized: Path, there: Path) -> None:
    command = f'cd {there} && export HOME={there} && eval "$SSH_ORIGINAL_COMMAND"'
    escaped = command.replace('"', '\\"')
    authorized.write_text(f'command="{escaped}" {authorized.read_text()}')
