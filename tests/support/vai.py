"""Packages of the vai puppet, made by tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

import plughost
from plughost.contracts.vai.contract import spec_of
from plughost.contracts.vai.request_bodies import GatewayAccess, RequestContext, ToolBody
from tests.support import PLUGINS

MANIFEST = """\
api_version = "vai.plugin.v1"
package_id = "acme/puppet"
version = "1.0.0"
name = "Puppet"

[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/plugin.py", "MARK"]
os = ["linux"]
arch = ["amd64", "arm64"]

[[exports]]
id = "act"
kind = "tool"
display_name = "Act"
default_timeout_ms = 60000
[exports.permissions]
filesystem = "FILESYSTEM"
network = "NETWORK"
[exports.tool]
effect_class = "read_only"
input_schema = "schemas/any.json"

[[exports]]
id = "react"
kind = "hook"
display_name = "React"
default_timeout_ms = 60000
[exports.hook]
subscribes_to = ["run.completed"]
"""


def package(
    root: Path,
    mark: str = "",
    *,
    filesystem: str = "none",
    network: str = "none",
    program: Path = PLUGINS / "vai_puppet.py",
) -> Path:
    """A package's folder below `root`."""
    folder = root / "package"
    for part in ("bin", "schemas", "assets"):
        (folder / part).mkdir(parents=True)
    text = MANIFEST.replace("FILESYSTEM", filesystem).replace("NETWORK", network).replace("MARK", mark)
    (folder / "vai-plugin.toml").write_text(text)
    (folder / "schemas/any.json").write_text("{}")
    (folder / "assets/words.txt").write_text("words of its own\n")
    (folder / "README.md").write_text("A puppet\n")
    shutil.copyfile(program, folder / "bin/plugin.py")
    (folder / "bin/plugin.py").chmod(0o755)
    return folder


def spec(
    folder: Path, *, sandbox: str | None = "none", env: dict[str, str] | None = None, **options: Any
) -> plughost.PluginSpec:
    told = spec_of(folder)
    command = list(told.command)
    if sandbox == "none":
        command = [sys.executable, "-ISE", *command]
    return msgspec.structs.replace(told, command=command, sandbox=sandbox, env=env or {}, options=options)


CONTEXT = RequestContext(
    invocation_id="inv_1",
    trace_id="tr_1",
    org_id="org_1",
    project_id="proj_1",
    session_id="sess_1",
    chain_id="ch_1",
    run_id="run_1",
    deadline_at="2026-03-12T20:00:00Z",
    scratch_dir=None,
    gateway=GatewayAccess(base_url="https://gateway.invalid"),
)


def tool(**given: Any) -> ToolBody:
    """A call of the puppet's tool."""
    return ToolBody(export_id="act", context=CONTEXT, tool_execution_id="toolx_1", input=given)
