"""The manifest of a kaged plugin, manifest.yaml: parsing, validation with line numbers, lints for loose
entries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from plughost._util.json_schema import validation
from plughost._util.located.document import Document, Field, LocatedProblem
from plughost._util.semver import is_semantic
from plughost.contracts.kaged import capabilities
from plughost.permissions.addresses import parse_url

FILES = ("manifest.yaml", "kaged-plugin.yaml")
"""The names of a manifest file; the first that exists is read."""
API_VERSION = 1
RESERVED = ("kaged.", "system.")
PROTOCOL = ("initialize", "initialized", "shutdown", "health.check")
HOOKS = ("on_session_start", "on_session_idle", "pre_compact", "post_compact")
HOOK = "kaged.hook."

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_METHOD = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+){1,3}")
_LICENSE = re.compile(r"[\w.+:()-]+(?: (?:AND|OR|WITH) [\w.+:()-]+)*", re.ASCII)


class KagedTool(msgspec.Struct, frozen=True):
    """An entry of `tools` in manifest.yaml."""

    name: str
    description: str = ""
    parameters_schema: dict[str, Any] = {}


class KagedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole manifest.yaml of a kaged plugin."""

    name: str
    version: str
    kaged_api: int
    description: str
    author: str | None = None
    license: str | None = None
    homepage: str | None = None
    command: list[str]
    env: dict[str, str] = {}
    capabilities: list[str] = []
    methods: list[str] = []
    notifications: list[str] = []
    config_schema: dict[str, Any] | None = None
    shutdown_timeout_sec: Annotated[int, msgspec.Meta(ge=1, le=30)] = 5
    health_interval_sec: Annotated[int, msgspec.Meta(ge=5, le=300)] = 30
    tools: list[KagedTool] = []
    """An extension that existing plugins use: each tool is the method `<name>.<tool>`."""
    hooks: list[str] = []
    hook_timeout_sec: Annotated[int, msgspec.Meta(ge=1, le=300)] = 10

    @property
    def all_methods(self) -> frozenset[str]:
        """The callable methods: `methods` and, as `<name>.<tool>`, the tools. Hooks are not callable."""
        tools = (f"{self.name}.{tool.name}" for tool in self.tools)
        return frozenset(self.methods) | frozenset(method for method in tools if _is_callable(method))

    @property
    def required_methods(self) -> frozenset[str]:
        """The methods that the answer to initialize must list: `methods`, or else the tools."""
        return frozenset(self.methods) or self.all_methods


def _is_callable(method: str) -> bool:
    return bool(_METHOD.fullmatch(method)) and method not in PROTOCOL and not method.startswith(RESERVED)


class KagedManifestFile(msgspec.Struct, frozen=True):
    """A valid manifest, with the lints found in it."""

    manifest: KagedManifest
    lints: tuple[LocatedProblem, ...] = ()


def find(folder: Path) -> Path | None:
    """The manifest file in a plugin's folder; None when there is none."""
    return next((folder / name for name in FILES if (folder / name).exists()), None)


def read(path: Path) -> KagedManifestFile:
    """Reads a manifest file. Raises InvalidConfig with every problem, each with its line."""
    from plughost._util.located.yaml import load_yaml

    document = load_yaml(path)
    lints = document.set_aside_unknown(KagedManifest, document.data)
    if path.name != FILES[0]:
        lints.append(document.lint((), f"the contract calls this file {FILES[0]}"))
    manifest = document.read(KagedManifest, (), document.data)
    _check(document, document.data)
    _check_methods(document, document.data)
    if manifest is not None:
        lints += _lint(document, manifest)
    document.check()
    assert manifest is not None
    return KagedManifestFile(manifest, tuple(lints))


def _check(document: Document, data: dict[str, Any]) -> None:
    """Validates each field on its own, also when another has the wrong type."""

    def expect(field: Field, fits: bool, expected: str) -> None:
        if not fits:
            document.problem(field, f"expected {expected}")

    name, version, api, about = (data.get(key) for key in ("name", "version", "kaged_api", "description"))
    if isinstance(name, str):
        expect(
            ("name",),
            bool(_NAME.fullmatch(name)),
            "1 to 64 characters of a-z, 0-9 and hyphens, starting with a letter",
        )
    if isinstance(version, str):
        expect(("version",), is_semantic(version), "a semantic version such as 1.0.0")
    if isinstance(api, int) and not isinstance(api, bool):
        if api < 1:
            document.problem(("kaged_api",), "expected a positive integer")
        elif api != API_VERSION:
            document.problem(("kaged_api",), f"expected {API_VERSION}, which this host speaks")
    if isinstance(about, str):
        expect(("description",), 1 <= len(about) <= 200, "1 to 200 characters")
    if isinstance(homepage := data.get("homepage"), str):
        try:
            parse_url(homepage)
        except ValueError as error:
            document.problem(("homepage",), f"expected a URL: {error}")
    command = data.get("command")
    if isinstance(command, list):
        expect(("command",), bool(command and command[0]), "at least the program to run")
    if isinstance(config := data.get("config_schema"), dict) and (
        fault := validation.quick_schema_problem(config)
    ):
        document.problem(("config_schema",), f"not an accepted JSON Schema: {fault}")
    _check_capabilities(document, data.get("capabilities"))
    for number, word in _texts(data.get("notifications")):
        expect(("notifications", number), bool(word), "a name")


def _check_capabilities(document: Document, words: Any) -> None:
    for number, word in _texts(words):
        try:
            capabilities.parse(word)
        except ValueError as error:
            document.problem(("capabilities", number), f"{word!r:.200}: {error}")
    if capabilities.contradicts([word for _, word in _texts(words)]):
        document.problem(
            ("capabilities",), f"{capabilities.NO_NETWORK} cannot be combined with another net: entry"
        )


def _check_methods(document: Document, data: dict[str, Any]) -> None:
    """Validates methods, tools and hooks. An invalid plugin name is not reported again for each of its
    tools."""
    named: list[tuple[Field, str]] = [(("methods", n), method) for n, method in _texts(data.get("methods"))]
    if not data.get("methods"):
        name = data.get("name")
        prefix = name if isinstance(name, str) and _NAME.fullmatch(name) else "name"
        named = [(("tools", n, "name"), f"{prefix}.{tool}") for n, tool in _tool_names(data.get("tools"))]
    for field, method in named:
        if method in PROTOCOL:
            document.problem(field, f"{method!r} is a method of the protocol itself")
        elif method.startswith(RESERVED):
            document.problem(field, f"{method!r:.200}: {' and '.join(RESERVED)} are reserved")
        elif not _METHOD.fullmatch(method):
            document.problem(
                field, f"{method!r:.200}: expected 2 to 4 segments of a-z, 0-9, - and _, with dots between"
            )
    for number, hook in _texts(data.get("hooks")):
        if not _METHOD.fullmatch(HOOK + hook):
            document.problem(("hooks", number), f"{hook!r:.200} is not the name of a hook")
    if not any(data.get(key) for key in ("methods", "tools", "hooks")):
        document.problem(("methods",), "expected at least one method")


def _lint(document: Document, manifest: KagedManifest) -> list[LocatedProblem]:
    lints = []
    if not manifest.methods:
        message = "empty: only its tools, <name>.<tool>, and its hooks can be called"
        lints.append(document.lint(("methods",), message))
    for number, tool in enumerate(manifest.tools):
        if (method := f"{manifest.name}.{tool.name}") not in manifest.all_methods:
            message = f"{method!r:.200} cannot be called: a tool's name has only a-z, 0-9, - and _"
            lints.append(document.lint(("tools", number, "name"), message))
    if manifest.license is not None and not _LICENSE.fullmatch(manifest.license):
        lints.append(document.lint(("license",), "expected an SPDX identifier such as MIT"))
    for number, hook in enumerate(manifest.hooks):
        if hook not in HOOKS:
            lints.append(document.lint(("hooks", number), f"unknown hook; known: {', '.join(HOOKS)}"))
    for number, word in enumerate(manifest.capabilities):
        if word.startswith("net:") and word.endswith("*"):
            message = f"{word}: works only for clients that use a proxy, and only for public addresses"
            lints.append(document.lint(("capabilities", number), message))
    return lints


def _texts(words: Any) -> list[tuple[int, str]]:
    """The strings in a list, each with its index."""
    listed = words if isinstance(words, list) else []
    return [(number, word) for number, word in enumerate(listed) if isinstance(word, str)]


def _tool_names(tools: Any) -> list[tuple[int, str]]:
    listed = tools if isinstance(tools, list) else []
    return _texts([tool.get("name") if isinstance(tool, dict) else None for tool in listed])
