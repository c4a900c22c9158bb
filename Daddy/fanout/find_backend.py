"""Returns the backend that a run asks for, if it confines the run's program enough."""

from Daddy.core.errors import SandboxError
from Daddy.sandbox.backend_facts import open_backend, read_backend_facts
from Daddy.sandbox.choose_backend import BackendChoice, choose_backend
from Daddy.sandbox.sandbox_interfaces import Backend


def choose(wish: str, *, allow_unsafe: bool) -> BackendChoice:
    """Return the choice for a wish. Raises SandboxError where nothing confines, ConfigError."""
    facts = read_backend_facts()
    choice = choose_backend(wish, facts, generated=False, allow_unsafe=allow_unsafe)
    if choice.level == "none" and not allow_unsafe:
        raise SandboxError(
            f"the backend {choice.name} does not confine programs",
            "use --backend bubblewrap, or add --allow-unsafe to this run",
        )
    return choice


def find_backend(wish: str, *, allow_unsafe: bool) -> Backend:
    """Return the backend for a wish. Raises SandboxError, ConfigError, ExtraMissingError."""
    return open_backend(choose(wish, allow_unsafe=allow_unsafe).name)
