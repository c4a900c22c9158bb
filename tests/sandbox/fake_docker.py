"""A local engine at a Unix socket that speaks the part of Docker's interface which we use.

A container's configuration must have the keys of the SDK's own `ContainerConfig`; the SDK itself
refuses a limit that it does not know. Commands run for real, in bubblewrap.
"""

import asyncio
import contextlib
import json
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from docker.types import ContainerConfig

from tests.sandbox.fake_machine import bwrap_argv

VERSION = "1.47"
IMAGES = {"python:3-slim"}


@dataclass
class Container:
    """A container's wishes, its folder, and its first process."""

    id: str
    config: dict[str, Any]
    folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="fake-docker-")
    )
    process: asyncio.subprocess.Process | None = None
    attached: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def argv(self) -> list[str]:
        host, extra = self.config["HostConfig"], []
        for bind in host["Binds"]:
            source, target, mode = bind.split(":")
            extra += ["--ro-bind" if mode == "ro" else "--bind", source, target]
        for target in host["Tmpfs"]:
            extra += ["--tmpfs", target]
        command = [*(self.config["Entrypoint"] or []), *self.config["Cmd"]]
        return [*bwrap_argv(Path(self.folder.name), extra, self.config["WorkingDir"]), *command]

    def destroy(self) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.folder.cleanup()


class FakeEngine:
    """The engine, in a thread of its own."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.made: list[Container] = []
        self.errors: list[str] = []
        self.loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="fake-docker-socket-")
        self.url = f"unix://{self._folder.name}/engine.sock"
        self._ready, self._tasks = threading.Event(), set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        for container in self.containers.values():
            container.destroy()
        self._folder.cleanup()

    def cut_attachments(self) -> None:
        """End all attachments, as the end of their client's process does."""
        for container in self.containers.values():
            self.loop.call_soon_threadsafe(container.attached[1].close)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        path = self.url.removeprefix("unix://")
        server = self.loop.run_until_complete(asyncio.start_unix_server(self._talk, path))
        self._ready.set()
        self.loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split()
                size = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    size = int(value) if name.lower() == "content-length" else size
                body = json.loads(await reader.readexactly(size) or b"null")
                if await self._answer(method, target, body, reader, writer):
                    return  # the connection is a container's now
        except ConnectionError:
            pass
        except Exception as error:
            self.errors.append(repr(error))
            write(writer, 500, {"message": "the fake failed"})
            raise
        writer.close()

    async def _answer(
        self, method: str, target: str, body: Any, reader: Any, writer: asyncio.StreamWriter
    ) -> bool:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix(f"/v{VERSION}").split("/")[1:]
        match method, *path:
            case "GET", "version":
                write(writer, 200, {"ApiVersion": VERSION, "MinAPIVersion": "1.24"})
            case _, "_ping":
                write(writer, 200, "OK")
            case "POST", "containers", "create":
                self._create(query["name"], body, writer)
            case "GET", "containers", "json":
                write(writer, 200, self._list(json.loads(query.get("filters", "{}"))))
            case "POST", "containers", name, "attach" if name in self.containers:
                assert query["stdin"] == query["stdout"] == query["stream"] == "1"
                writer.write(
                    b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                    b"Content-Type: application/vnd.docker.multiplexed-stream\r\n\r\n"
                )
                self.containers[name].attached = (reader, writer)
                return True
            case "POST", "containers", name, "start" if name in self.containers:
                await self._start(name, self.containers[name])
                write(writer, 204)
            case "DELETE", "containers", name if name in self.containers:
                self.containers.pop(name).destroy()
                write(writer, 204)
            case _:
                write(writer, 404, {"message": f"No such container: {target}"})
        return False

    def _create(self, name: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        check_keys(body)
        if body["Image"] not in IMAGES:
            write(writer, 404, {"message": f"No such image: {body['Image']}"})
            return
        container = Container(name, body)
        self.containers[name] = container
        self.made.append(container)
        write(writer, 201, {"Id": name, "Warnings": []})

    def _list(self, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        wanted = dict(label.split("=", 1) for label in filters.get("label", []))
        return [
            {"Id": container.id, "Labels": container.config["Labels"]}
            for container in self.containers.values()
            if wanted.items() <= container.config["Labels"].items()
        ]

    async def _start(self, name: str, container: Container) -> None:
        container.process = await asyncio.create_subprocess_exec(
            *container.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        task = self.loop.create_task(self._carry(name, container))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, name: str, container: Container) -> None:
        """Carry the attachment's bytes until the first process ends; then remove the container."""
        reader, writer = container.attached
        process = container.process

        async def forward(stream: asyncio.StreamReader, number: int) -> None:
            while data := await stream.read(1 << 16):
                writer.write(struct.pack(">BxxxL", number, len(data)) + data)
                await writer.drain()

        async def take_input() -> None:
            while data := await reader.read(1 << 16):
                process.stdin.write(data)
                await process.stdin.drain()
            process.stdin.close()  # StdinOnce

        given = self.loop.create_task(take_input())
        outputs = (forward(process.stdout, 1), forward(process.stderr, 2))
        await asyncio.gather(*outputs, return_exceptions=True)
        await process.wait()
        given.cancel()
        writer.close()
        assert container.config["HostConfig"]["AutoRemove"]
        if self.containers.pop(name, None):
            container.destroy()


def check_keys(body: dict[str, Any]) -> None:
    """Raise if a container's configuration has a key that the SDK's own class does not make."""
    known = ContainerConfig(VERSION, "image", ["true"])
    assert set(body) - {"HostConfig"} <= set(known), set(body) - set(known)


def write(writer: asyncio.StreamWriter, status: int, body: Any = None) -> None:
    data = (
        b""
        if body is None
        else body.encode()
        if isinstance(body, str)
        else json.dumps(body).encode()
    )
    kind = "text/plain" if isinstance(body, str) else "application/json"
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write((head if status != 204 else "HTTP/1.1 204 -\r\n\r\n").encode() + data)
