"""What escapes are tried from and against: plugins in four languages, and a neighbourhood that is worth it."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  a host that runs as another user cannot import it later
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

import plughost
from plughost.contracts.ainb import manifest as manifests
from plughost.engine.io.process_link import ProcessLink
from plughost.engine.launcher.launch import Launch
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.sandbox.mechanisms import bubblewrap
from plughost.sandbox.mechanisms.features import kernel_features
from tests.support import PLUGINS, UNHURRIED, data_root
from tests.support.confinable import PUBLIC_PYTHON

CONTRACTS = ("mcptest", "rune", "ainb", "kaged", "vai")
LIMITS = ResourceLimits(processes=24)
TOO_MANY = 40
TOO_MUCH = 3 << 29
PATIENCE = 30.0
"""Twelve programs start at once on a small machine."""
_OPTIONS = {"rune": UNHURRIED}
_MANIFESTS = {
    "kaged": (
        "kaged-plugin.yaml",
        "name: NAME\nversion: 1.0.0\nkaged_api: 1\ndescription: an escapee\nlicense: none\n"
        "command: [./NAME]\nmethods: [escapee.try]\ncapabilities: []\n",
    ),
    "vai": (
        "vai-plugin.toml",
        """api_version = "vai.plugin.v1"
package_id = "acme/escapee"
version = "1.0.0"
name = "Escapee"
[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/NAME"]
os = ["linux"]
arch = ["amd64", "arm64"]
[[exports]]
id = "try"
kind = "tool"
display_name = "Try"
default_timeout_ms = 60000
[exports.tool]
input_schema = "any.json"
""",
    ),
}
_NAMESPACES = ("ipc", "pid", "net", "uts", "cgroup", "user")


def build(folder: Path) -> dict[str, Path]:
    """The escapees, by language; those whose toolchain is there."""
    built = {"python": folder / "python"}
    built["python"].write_text(f"#!{PUBLIC_PYTHON} -IS\n" + (PLUGINS / "escapee.py").read_text())
    if node := shutil.which("node", path="/usr/local/bin:/usr/bin:/bin"):
        built["node"] = folder / "node"
        built["node"].write_text(f"#!{node}\n" + (PLUGINS / "escapee.js").read_text())
    makers = {"c": ["cc", "-O2", "-o"], "go": ["go", "build", "-o"]}
    for language, command in makers.items():
        if shutil.which(command[0]):
            built[language] = folder / language
            source = PLUGINS / f"escapee.{language}"
            subprocess.run([*command, built[language], source], check=True, cwd=folder)
    return built


class Neighbourhood:
    """Files, sockets and processes that no confined plugin gets at, though nothing but the sandbox forbids it:
    everything is open to its user."""

    def __init__(self, folder: Path, programs: dict[str, Path]) -> None:
        self.folder = folder
        self.abstract = f"plughost-{uuid.uuid4().hex}"
        self._programs = programs
        self._closing: list[object] = []
        for name in ("secret", "meta"):
            (folder / name).write_text("s")
            (folder / name).chmod(0o666)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        tcp = socket.create_server(("127.0.0.1", 0), backlog=512)
        path, named = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        path.bind(str(self.folder / "socket"))
        (self.folder / "socket").chmod(0o777)
        named.bind("\0" + self.abstract)
        for listener in (path, named):
            listener.listen(512)
        udp, protocol = await loop.create_datagram_endpoint(_Answering, ("127.0.0.1", 0))
        protocol.transport = udp
        self.tcp, self.udp = tcp.getsockname()[1], udp.get_extra_info("sockname")[1]
        self._closing = [tcp, path, named, udp]

    def close(self) -> None:
        for each in self._closing:
            each.close()  # type: ignore[attr-defined]

    def spec(
        self, language: str, contract: str, class_: str, limits: ResourceLimits = LIMITS
    ) -> plughost.PluginSpec:
        """A folder of its own for the plugin, in which even its code is writable for all."""
        name = f"{language}-{contract}"
        home = self.folder / name
        code = home / "bin" if contract == "vai" else home
        code.mkdir(parents=True)
        program = Path(shutil.copy(self._programs[language], code / name))
        program.chmod(0o777)
        home.chmod(0o777)
        if contract in _MANIFESTS:
            file, text = _MANIFESTS[contract]
            (home / file).write_text(text.replace("NAME", name))
            (home / "any.json").write_text("{}")
            spec = plughost.config.load_folder(home)
            options = {"data_root": data_root(self.folder)} if contract == "kaged" else {}
            return msgspec.structs.replace(spec, sandbox=class_, limits=limits, options=options)
        told = manifests.AinbManifest(manifests.AinbAbout(name, "1.0.0", manifests.ABI_VERSION))
        (home / manifests.FILE).write_text(manifests.write(told))
        if contract == "ainb":
            spec = plughost.config.load_folder(home)
            return msgspec.structs.replace(
                spec,
                sandbox=class_,
                limits=limits,
                options={**spec.options, "data_root": data_root(self.folder)},
            )
        return plughost.PluginSpec(
            contract=contract, name=name, command=[str(program)], env={"PATH": "/usr/bin:/bin"},
            sandbox=class_, limits=limits, options=_OPTIONS.get(contract, {}),
        )  # fmt: skip

    def tries(self, plugin: plughost.Plugin, victim: int, only: Collection[str] | None = None) -> str:
        secret, meta = self.folder / "secret", self.folder / "meta"
        arguments: dict[str, object] = {
            "read": secret, "listing": self.folder / "open", "write": self.folder / "open" / plugin.name,
            "code": _program(plugin), "run": "/usr/bin/true", "memfd": secret, "bring": secret,
            "tcp": self.tcp, "udp": self.udp, "abstract": self.abstract, "unix": self.folder / "socket",
            "kill": victim, "ptrace": victim, "memory_of": victim, "environ": victim, "proc": victim,
            "limit_of": victim, "nice": victim, "pin": victim,
            "chmod": meta, "touch": meta, "tag": meta, "truncate": meta, "watch": meta,
            "userns": "", "mount": "", "io_uring": "", "keyctl": "", "userfaultfd": "", "tiocsti": "",
            "forks": TOO_MANY, "memory": TOO_MUCH,
        }  # fmt: skip
        return ";".join(
            f"{name} {argument}".strip()
            for name, argument in arguments.items()
            if only is None or name in only
        )

    @contextmanager
    def victim(self, plugin: plughost.Plugin) -> Iterator[int]:
        """A process of the plugin's own user, outside."""
        user, colon, _ = plugin.confinement.launch.confine.partition(":")
        who = {"user": int(user), "group": int(user), "extra_groups": []} if colon else {}
        with subprocess.Popen(
            [self._programs["c"], "victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **who
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
            process.communicate()

    def own(self, plugin: plughost.Plugin) -> None:
        """Also the files are its user's."""
        user, colon, _ = plugin.confinement.launch.confine.partition(":")
        if colon:
            for path in (self.folder / "secret", self.folder / "meta", _program(plugin)):
                os.chown(path, int(user), int(user))


def _program(plugin: plughost.Plugin) -> Path:
    return Path(plugin.spec.cwd or "/", plugin.spec.command[0])


class _Answering(asyncio.DatagramProtocol):
    transport: asyncio.DatagramTransport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.transport.sendto(data, address)


@asynccontextmanager
async def neighbourhood(programs: dict[str, Path]) -> AsyncIterator[Neighbourhood]:
    # Not in /tmp: a plugin has one of its own, and Landlock knows only the name.
    with tempfile.TemporaryDirectory(prefix="plughost-escape-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        around = Neighbourhood(Path(name), programs)
        await around.open()
        try:
            yield around
        finally:
            around.close()


def loosened(launch: Launch, drop: Collection[str], around: Path) -> Launch:
    """The same launch with just these mechanisms left out."""
    inner = launch.command.index(bubblewrap.INNER, launch.command.index("--chdir"))
    outside, inside = list(launch.command[:inner]), list(launch.command[inner:])
    flags = [f"--unshare-{name}" for name in _NAMESPACES]
    if "pids" in drop:
        flags.remove("--unshare-pid")
        place = outside.index("--proc")
        outside[place : place + 2] = ["--ro-bind", "/proc", "/proc"]
    if "network" in drop:
        flags.remove("--unshare-net")
    if "userns" in drop:
        outside.remove("--disable-userns")
    if "view" in drop:
        shown = ["--bind", str(around), str(around), "--ro-bind", "/usr/bin/true", "/usr/bin/true"]
        place = outside.index("--chdir")
        outside[place:place] = shown
    outside[1:3] = flags
    for word in {"landlock", "seccomp"} & set(drop):
        inside.remove(word)
    if drop and "uncounted" in inside:  # it holds a memfd for its memory's sake: test_shared_memory.py
        inside.remove("uncounted")
    limits = {"processes": "nproc", "memory": "data", "bubblewrap": "nproc"}
    for limit in {limits[mechanism] for mechanism in limits.keys() & set(drop)}:
        place = inside.index(limit) - 1
        del inside[place : place + 3]
    if "bubblewrap" in drop:
        here = kernel_features().inner
        assert here is not None
        outside, inside = [], [here, *inside[1:]]
    mode = "subreaper" if {"pids", "bubblewrap"} & set(drop) else launch.mode
    return msgspec.structs.replace(launch, command=(*outside, *inside), mode=mode)


async def tried(
    programs: dict[str, Path],
    kinds: Collection[tuple[str, str]],
    *,
    class_: str = "strict",
    drop: Collection[str] = (),
    only: Collection[str] | None = None,
    mode: str = "auto",
    connect: Collection[Endpoint] = (),
) -> dict[str, dict[str, str]]:
    """What each plugin said of each try, by `language-contract`. `connect` is granted to it."""
    async with neighbourhood(programs) as around, plughost.Host(launch_mode=mode) as host:

        async def one(language: str, contract: str) -> dict[str, str]:
            spec = around.spec(language, contract, class_)
            plugin = await host.add(msgspec.structs.replace(spec, allow=Access(connect=tuple(connect))))
            if drop:
                (launch,) = plugin._open_link.args
                plugin._open_link = functools.partial(ProcessLink, loosened(launch, drop, around.folder))
            around.own(plugin)
            with around.victim(plugin) as victim:
                params = {"tries": around.tries(plugin, victim, only)}
                method = "escapee.try" if contract == "kaged" else "try"
                outcome = await plugin.call(method, params, timeout=PATIENCE)
            if contract == "vai":
                outcome = outcome["result"]["structured_output"]
            return dict(getattr(outcome, "output", outcome))

        return {f"{language}-{contract}": await one(language, contract) for language, contract in kinds}
