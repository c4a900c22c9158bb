"""Adapter for Daytona: sandboxes in the vendor's cloud, through its SDK (extra ``daytona``).

The vendor confines. Its sandboxes have no network here, stop after ten idle minutes and are deleted
half an hour later, or at their lifetime. A runner is uploaded and started in a session, whose input
and log carry its pipes. A fresh sandbox of ours is a new one of the vendor's for each command.
"""

import asyncio
import base64
import contextlib
import importlib.util
import io
import math
import os
import shlex
import socket
import tarfile
from collections.abc import Awaitable, Mapping
from typing import Any, cast

from Daddy.core.errors import (
    ConfigError,
    DaddyError,
    ExtraMissingError,
    NetworkError,
    SandboxError,
    needs_extra,
)
from Daddy.core.humanize import printable_line
from Daddy.sandbox.renewed_sandbox import RenewedSandbox
from Daddy.sandbox.runner_client import RUNNER, RunnerSandbox, runner_argv
from Daddy.sandbox.sandbox_interfaces import CreationRefusedError, Isolation, Sandbox, SandboxSpec

KEY = "DAYTONA_API_KEY"
LABEL, RUN_LABEL = "made-by-daddy", "daddy-run"
AUTO_STOP_MIN, AUTO_DELETE_MIN = 10, 30
_FOLDER = "/var/tmp/runner"  # noqa: S108 - of the vendor's sandbox
_SESSION = "runner"
_KEEP_AWAKE_S = 120.0
"""Seconds between two signs of activity; the vendor stops idle sandboxes."""
_CREATE_S, _REQUEST_S = 120, 60
_INLINE_BYTES = 2048
"""Most bytes of a line of input; a terminal would cut a line of 4096 characters."""
_PIECE, _LINE_CHARACTERS, _ERROR_CHARACTERS = 64 * 1024, 1 << 17, 2000
_MISSING = (
    "memory limit, processes and scratch of a command: the vendor's machine bounds them",
    "read-only files: a command may change its copy",
)
_REMEDY = "wait, or look at the vendor's dashboard; sandboxes on this machine: --backend bubblewrap"


def _require_key(environ: Mapping[str, str]) -> str:
    if key := environ.get(KEY, "").strip():
        return key
    raise ConfigError(
        f"--backend daytona needs an account's key, and {KEY} is not set",
        f"set {KEY}, or use this machine: --backend bubblewrap",
    )


def _load_sdk() -> Any:
    """Import the SDK, which takes seconds. Raises ExtraMissingError."""
    with needs_extra("daytona"):
        import daytona
    return daytona


def read_retry_after(headers: Mapping[str, Any]) -> float | None:
    """Return the longest wait that a response's headers ask for, in seconds."""
    waits = []
    for name, value in headers.items():
        if name.lower().startswith("retry-after"):  # also Retry-After-sandbox-create
            with contextlib.suppress(ValueError):
                waits.append(float(value))
    return max((wait for wait in waits if math.isfinite(wait)), default=None)


def translate_error(error: Exception, key: str = "") -> DaddyError:
    """Return an error of ours for one of the SDK's, without the key and control characters."""
    if isinstance(error, DaddyError):
        return error
    status = getattr(error, "status_code", None)
    text = str(error).replace(key, "…") if key else str(error)
    said = f"Daytona: {printable_line(text, 300)}"
    limited = status in (400, 403, 409) and "limit" in text.lower()
    if status == 429 or limited:  # noqa: PLR2004
        return CreationRefusedError(said, _REMEDY, read_retry_after(getattr(error, "headers", {})))
    if status in (401, 403):
        return ConfigError(said, f"check {KEY}; it needs the right to make and delete sandboxes")
    if "Connection" in type(error).__name__:
        return NetworkError(said, "check this machine's network")
    return SandboxError(said, _REMEDY)


class _Account:
    """One client of the SDK for all sandboxes of a backend; closed with the last of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ, self.key = environ, ""
        self._client: Any = None
        self._users = 0
        self._turn = asyncio.Lock()

    async def enter(self) -> Any:
        async with self._turn:
            if self._client is None:
                self.key = _require_key(self.environ)
                sdk = await asyncio.to_thread(_load_sdk)
                names = ("DAYTONA_API_URL", "DAYTONA_TARGET")
                url, target = (self.environ.get(name) for name in names)
                config = sdk.DaytonaConfig(api_key=self.key, api_url=url, target=target)
                self._client = sdk.AsyncDaytona(config)
            self._users += 1
            return self._client

    async def leave(self) -> None:
        async with self._turn:
            self._users -= 1
            if self._users == 0:
                client, self._client = self._client, None
                await client.close()


class DaytonaBackend:
    """Makes sandboxes at Daytona, labelled with the name of a run."""

    name = "daytona"

    def __init__(self, run: str = "", environ: Mapping[str, str] = os.environ) -> None:
        self._run = run
        self._account = _Account(environ)

    def isolation(self) -> Isolation:
        """Return the vendor's promise. Raises ConfigError without a key, ExtraMissingError."""
        _require_key(self._account.environ)
        found = importlib.util.find_spec("daytona")
        if found is None or found.origin is None:  # a mere folder of that name has no origin
            raise ExtraMissingError("daytona", "daytona")
        return Isolation("vendor", _MISSING)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox whose runner has answered.

        Raises ConfigError for a wrong key, CreationRefusedError for a rate or a quota that is used
        up, NetworkError, ExtraMissingError, SandboxError.
        """
        self.isolation()
        if spec.image != "host" or spec.read_only:
            asked = spec.image if spec.image != "host" else str(spec.read_only[0])
            raise ConfigError(
                f"Daytona has its own image and cannot see {asked!r} of this machine",
                "use the image 'host' without folders, or --backend bubblewrap",
            )
        first = await self._make(spec)
        return first if spec.persistent else RenewedSandbox(first, spec, self._make)

    async def delete_leftovers(self, run: str | None = None) -> int:
        """Delete the sandboxes of a run, or of all runs of this account; return their number."""
        client, deleted = await self._account.enter(), 0
        try:
            labels = {LABEL: "yes"} if run is None else {RUN_LABEL: run}
            async for vendors in client.list(_load_sdk().ListSandboxesQuery(labels=labels)):
                await vendors.delete(_REQUEST_S)
                deleted += 1
        except Exception as error:  # noqa: BLE001 - of the SDK
            raise translate_error(error, self._account.key) from None
        finally:
            await self._account.leave()
        return deleted

    async def _make(self, spec: SandboxSpec) -> RunnerSandbox:
        client = await self._account.enter()
        creation = asyncio.ensure_future(client.create(self._parameters(spec), timeout=_CREATE_S))
        try:
            vendors = await asyncio.shield(creation)
        except BaseException as error:
            # A cancelled request may have made a sandbox: wait for its answer and delete it.
            await asyncio.shield(self._abandon(creation, client))
            if isinstance(error, Exception):
                raise translate_error(error, self._account.key) from None
            raise
        return await _VendorProcess(vendors, self._account).start(spec)

    def _parameters(self, spec: SandboxSpec) -> Any:
        return _load_sdk().CreateSandboxFromSnapshotParams(
            language="python",
            labels={LABEL: "yes", RUN_LABEL: self._run},
            auto_stop_interval=AUTO_STOP_MIN,
            auto_delete_interval=AUTO_DELETE_MIN,
            ttl_minutes=max(1, math.ceil(spec.lifetime_s / 60)),
            network_block_all=True,
        )

    async def _abandon(self, creation: "asyncio.Future[Any]", client: Any) -> None:
        try:
            await (await creation).delete(_REQUEST_S)
        except Exception as error:  # noqa: BLE001 - the caller raises the first error
            if sandbox_id := getattr(error, "sandbox_id", None):
                with contextlib.suppress(Exception):
                    await (await client.get(sandbox_id)).delete(_REQUEST_S)
        finally:
            await self._account.leave()


class _VendorProcess:
    """Stands for the process of a runner at the vendor's: a session's input and log are its pipes.

    `RunnerSandbox` speaks to it as to a child. Between them stands a pair of sockets, so that a
    slow reader on either side stops the other one.
    """

    def __init__(self, vendors: Any, account: _Account) -> None:
        self._vendors, self._account = vendors, account
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self._ours: socket.socket
        self._ending: asyncio.Future[None] | None = None
        self._pumps: list[asyncio.Future[None]] = []
        self._errors, self._line = "", ""

    async def start(self, spec: SandboxSpec) -> RunnerSandbox:
        """Upload and start the runner and wait for its answer; on failure delete the sandbox."""
        theirs, self._ours = socket.socketpair()
        self._ours.setblocking(False)
        self.stdout, self.stdin = await asyncio.open_connection(sock=theirs, limit=_LINE_CHARACTERS)
        try:
            command = await self._start_session(spec)
            ways = self._carry_requests(command), self._carry_replies(command), self._keep_awake()
            self._pumps = [asyncio.ensure_future(self._guard(way)) for way in ways]
            sandbox = RunnerSandbox(cast("asyncio.subprocess.Process", self), "plain")
            await sandbox.start()
        except BaseException as error:
            with contextlib.suppress(DaddyError):
                await self.wait()
            if not isinstance(error, Exception):
                raise
            told = translate_error(error, self._account.key)
            if said := printable_line(self._errors.strip()):
                told = SandboxError(f"no sandbox was made: {said}")
            raise told from None
        return sandbox

    def kill(self) -> None:
        """Begin to delete the vendor's sandbox."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())

    async def wait(self) -> int:
        """Wait until the vendor's sandbox is deleted."""
        self.kill()
        assert self._ending
        await asyncio.shield(self._ending)
        return 0

    async def _end(self) -> None:
        try:
            await asyncio.wait_for(self._vendors.delete(_REQUEST_S), _REQUEST_S)
        except Exception as error:  # noqa: BLE001 - of the SDK
            if getattr(error, "status_code", None) != 404:  # noqa: PLR2004 - it ended by itself
                raise translate_error(error, self._account.key) from None
        finally:
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)
            self._ours.close()
            self.stdin.close()
            await self._account.leave()

    async def _start_session(self, spec: SandboxSpec) -> str:
        process = self._vendors.process
        archive = await asyncio.to_thread(_pack_programs)
        await self._vendors.fs.upload_file(archive, f"{_FOLDER}.tar", timeout=_REQUEST_S)
        await process.create_session(_SESSION)
        argv = runner_argv("python3", _FOLDER, "plain", spec.lifetime_s)
        # The vendor's user may not write to the root, but may become root.
        files = "mkdir -p /files || sudo -n install -d -o $(id -u) /files"
        line = (
            f"{{ {files}; }} 2>&1; mkdir -p {_FOLDER} && tar -xf {_FOLDER}.tar -C {_FOLDER}"
            f" && exec python3 -I -S {_FOLDER}/text_relay.py {shlex.join(argv)}"
        )
        request = _load_sdk().SessionExecuteRequest(
            command=line, run_async=True, suppress_input_echo=True
        )
        return str((await process.execute_session_command(_SESSION, request)).cmd_id)

    async def _guard(self, way: Awaitable[None]) -> None:
        """Close our socket at the end of a way; `RunnerSandbox` then reads the end."""
        try:
            await way
        except Exception as error:  # noqa: BLE001 - of the SDK; told if the start fails
            self._take_error(str(translate_error(error, self._account.key)))
        finally:
            self._ours.close()

    async def _carry_requests(self, command: str) -> None:
        loop, pieces = asyncio.get_running_loop(), 0
        while data := await loop.sock_recv(self._ours, _PIECE):
            line = f"<{base64.b64encode(data).decode()}\n"
            if len(data) > _INLINE_BYTES:
                pieces += 1
                path = f"{_FOLDER}/piece-{pieces}"
                await self._vendors.fs.upload_file(data, path, timeout=_REQUEST_S)
                line = f"@{path}\n"
            process = self._vendors.process
            await process.send_session_command_input(_SESSION, command, line, _REQUEST_S)

    async def _carry_replies(self, command: str) -> None:
        await self._vendors.process.get_session_command_logs_async(
            _SESSION, command, self._take_text, self._take_error
        )

    async def _take_text(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        self._line = self._line[:_LINE_CHARACTERS]
        for line in lines:
            if line.startswith(">"):
                data = base64.b64decode(line[1:])
                await asyncio.get_running_loop().sock_sendall(self._ours, data)

    def _take_error(self, text: str) -> None:
        self._errors = (self._errors + text)[-_ERROR_CHARACTERS:]

    async def _keep_awake(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_AWAKE_S)
            await self._vendors.refresh_activity()


def _pack_programs() -> bytes:
    """Return an archive of the runner and of the program that carries its pipes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in [RUNNER.with_name("text_relay.py"), *sorted(RUNNER.glob("*.py"))]:
            archive.add(path, arcname=str(path.relative_to(RUNNER.parent)))
    return packed.getvalue()
