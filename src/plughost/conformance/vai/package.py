"""The axis of the package itself: files and schemas, before any process runs."""

from __future__ import annotations

import asyncio
import os

from plughost._util.json_schema import validation
from plughost.conformance.axis import Axis, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.vai.requests import folder_of, manifest_of, schema_of
from plughost.contracts.vai.manifest import ASSETS

README = "README.md"


async def manifest(subject: PluginUnderTest) -> None:
    """Checks the files that the manifest names. The manifest itself was valid, or there would be no plugin
    under test."""
    folder, package = folder_of(subject), manifest_of(subject)
    program = folder / package.runtime.entrypoint[0]
    require(os.access(program, os.X_OK), f"its entrypoint {package.runtime.entrypoint[0]} cannot be executed")
    require((folder / README).is_file(), f"the package has no {README}")
    for export in package.exports:
        for field, path in export.schemas.items():
            schema = schema_of(subject, path)
            require(isinstance(schema, dict), f"{path}, the {field} of {export.id}, is not a JSON object")
            fault = await asyncio.to_thread(validation.schema_problem, schema)
            require(fault is None, f"{path}, the {field} of {export.id}, is not a JSON Schema: {fault}")
        if export.permissions.filesystem == "assets_ro":
            require((folder / ASSETS).is_dir(), f"{export.id} asks to read {ASSETS}, which does not exist")


AXES = (
    Axis(
        name="manifest",
        promise="is a complete package: an executable program, a README.md, valid JSON Schemas, and the "
        "assets "
        "that it asks for",
        test=manifest,
    ),
)
