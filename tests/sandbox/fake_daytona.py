"""A local server that speaks as Daytona does, with answers made of its SDK's own model classes.

An attribute that a new SDK renames, or asks for in addition, makes `answer` or `parse` raise, and
the test with it. Commands run for real, in bubblewrap, one for each sandbox.
"""

import asyncio
import contextlib
import json
import subprocess
import tempfile
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import daytona_api_client_async as api
import daytona_toolbox_api_client_async as toolbox
from aiohttp import web

from tests.sandbox.fake_machine import bwrap_argv

KEY = "a-key-that-nobody-may-see"


def answer(model: Any, **fields: Any) -> web.Response:
    return web.Response(text=build(model, **fields).to_json(), content_type="application/json")


def build(model: Any, **fields: Any) -> Any:
    """Return an object of the SDK's class; pydantic itself would drop an unknown name."""
    if unknown := set(fields) - set(model.model_fields):
        raise AssertionError(f"{model.__name__} has no {unknown}")
    return model(**fields)


def parse(model: Any, body: bytes) -> Any:
    """Return a request as the SDK's class reads it; every key must be one of the class."""
    found = model.from_dict(json.loads(body))
    if found.additional_properties:
        raise AssertionError(f"{model.__name__} has no {set(found.additional_properties)}")
    return found


@dataclass
class Machine:
    """One sandbox of the vendor: a folder, and the process of its only session."""

    request: Any
    id: str
    folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="fake-daytona-")
    )
    process: asyncio.subprocess.Process | None = None
    sessions: set[str] = field(default_factory=set)
    active: int = 0

    @property
    def root(self) -> Path:
        return Path(self.folder.name)

    def destroy(self) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.folder.cleanup()


class FakeDaytona:
    """The server, in a thread of its own; `refusals` are (status, headers) of creations to come."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.made: list[Machine] = []
        self.refusals: deque[tuple[int, dict[str, str], str]] = deque()
        self.creatable = threading.Event()
        self.creatable.set()
        self.creating = threading.Event()
        self.errors: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        for machine in self.machines.values():
            machine.destroy()

    def take_away(self) -> None:
        """Destroy all sandboxes, as the vendor does with idle ones."""
        while self.machines:
            self.machines.popitem()[1].destroy()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        runner = web.AppRunner(self._application())
        self.loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self.loop.run_until_complete(site.start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        self.loop.run_forever()
        self.loop.run_until_complete(runner.cleanup())
        self.loop.close()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._check], client_max_size=1 << 30)
        box = "/toolbox/{id}"
        session = f"{box}/process/session"
        command = f"{session}/{{session}}/command/{{command}}"
        app.add_routes(
            [
                web.post("/api/sandbox", self.create),
                web.get("/api/sandbox", self.list),
                web.get("/api/sandbox/{id}", self.get),
                web.delete("/api/sandbox/{id}", self.delete),
                web.post("/api/sandbox/{id}/last-activity", self.touch),
                web.post(f"{box}/files/bulk-upload", self.upload),
                web.post(session, self.open_session),
                web.post(f"{session}/{{session}}/exec", self.execute),
                web.get(f"{command}/logs", self.follow),
                web.post(f"{command}/input", self.take_input),
            ]
        )
        return app

    @web.middleware
    async def _check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Refuse a wrong key, and remember an answer that the SDK's classes do not allow."""
        if request.path.startswith("/api/socket.io"):
            return web.Response(status=404)
        self.headers.append(dict(request.headers))
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return refuse(401, "Invalid credentials")
        try:
            return await handler(request)
        except KeyError as error:
            return refuse(404, f"there is no {error}")
        except web.HTTPException:
            raise
        except Exception as error:
            self.errors.append(f"{request.method} {request.path}: {error!r}")
            return refuse(500, "the fake failed")

    def _describe(self, machine: Machine, model: Any) -> Any:
        asked = machine.request
        fields = {
            "id": machine.id, "organization_id": "o", "name": machine.id, "user": "daytona",
            "labels": asked.labels or {}, "public": False, "target": "here", "cpu": 1, "gpu": 0,
            "network_block_all": bool(asked.network_block_all), "memory": 1, "disk": 3,
            "state": api.SandboxState.STARTED, "toolbox_proxy_url": f"{self.url}/toolbox",
            "auto_stop_interval": asked.auto_stop_interval,
            "auto_delete_interval": asked.auto_delete_interval,
        }  # fmt: skip
        if model is api.Sandbox:
            fields |= {"env": asked.env or {}, "kvm": False}
        return build(model, **fields)

    async def create(self, request: web.Request) -> web.Response:
        asked = parse(api.CreateSandbox, await request.read())
        self.creating.set()
        await asyncio.to_thread(self.creatable.wait)
        if self.refusals:
            status, headers, message = self.refusals.popleft()
            return refuse(status, message, headers)
        machine = Machine(asked, f"box-{len(self.made)}")
        self.made.append(machine)
        self.machines[machine.id] = machine
        return web.Response(
            text=self._describe(machine, api.Sandbox).to_json(), content_type="application/json"
        )

    async def get(self, request: web.Request) -> web.Response:
        machine = self.machines[request.match_info["id"]]
        return web.Response(
            text=self._describe(machine, api.Sandbox).to_json(), content_type="application/json"
        )

    async def list(self, request: web.Request) -> web.Response:
        labels = json.loads(request.query.get("labels", "{}"))
        items = [
            self._describe(machine, api.SandboxListItem)
            for machine in self.machines.values()
            if labels.items() <= (machine.request.labels or {}).items()
        ]
        return answer(api.ListSandboxesResponse, items=items, next_cursor=None)

    async def delete(self, request: web.Request) -> web.Response:
        machine = self.machines.pop(request.match_info["id"])
        described = self._describe(machine, api.Sandbox)
        described.state = api.SandboxState.DESTROYED
        machine.destroy()
        return web.Response(text=described.to_json(), content_type="application/json")

    async def touch(self, request: web.Request) -> web.Response:
        self.machines[request.match_info["id"]].active += 1
        return web.Response(status=201)

    async def upload(self, request: web.Request) -> web.Response:
        machine = self.machines[request.match_info["id"]]
        path = machine.root
        async for part in await request.multipart():
            data = bytes(await part.read())
            if part.name.endswith(".path"):
                path = machine.root / data.decode().lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
            else:
                path.write_bytes(data)
        return web.Response()

    async def open_session(self, request: web.Request) -> web.Response:
        asked = parse(toolbox.CreateSessionRequest, await request.read())
        self.machines[request.match_info["id"]].sessions.add(asked.session_id)
        return web.Response(status=201)

    async def execute(self, request: web.Request) -> web.Response:
        machine = self.machines[request.match_info["id"]]
        asked = parse(toolbox.SessionExecuteRequest, await request.read())
        if request.match_info["session"] not in machine.sessions or not asked.run_async:
            return refuse(404, "no such session, or the caller would wait")
        machine.process = await asyncio.create_subprocess_exec(
            *bwrap_argv(machine.root),
            *("sh", "-c", f"umask 022; {asked.command}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )
        return answer(toolbox.SessionExecuteResponse, cmd_id="command-1")

    async def follow(self, request: web.Request) -> web.StreamResponse:
        process = self.machines[request.match_info["id"]].process
        assert request.query["follow"] == "true"
        assert process
        socket = web.WebSocketResponse()
        await socket.prepare(request)

        async def forward(stream: asyncio.StreamReader, mark: bytes) -> None:
            while data := await stream.read(1 << 16):
                await socket.send_bytes(mark + data)

        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await asyncio.gather(
                forward(process.stdout, b"\1\1\1"), forward(process.stderr, b"\2\2\2")
            )
        await process.wait()
        await socket.close()
        return socket

    async def take_input(self, request: web.Request) -> web.Response:
        process = self.machines[request.match_info["id"]].process
        asked = parse(toolbox.SessionSendInputRequest, await request.read())
        process.stdin.write(asked.data.encode())
        await process.stdin.drain()
        return web.Response(status=204)


def refuse(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = json.dumps({"message": message, "statusCode": status})
    return web.Response(
        status=status, text=body, content_type="application/json", headers=headers or {}
    )
