"""A small package, and a place to install it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from plughost.vai.packages.locate import PackageLocation, on_disk
from plughost.vai.packages.pack import Packed, pack
from plughost.vai.packages.release import Release, parts
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust import keys, signature
from plughost.vai.packages.trust import publishers as trust
from plughost.vai.packages.trust.publishers import TrustedPublishers
from plughost.vai.packages.trust.signature import FILE as SIGNATURE

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""For the thousands of small files that these tests write."""

MANIFEST = """\
api_version = "vai.plugin.v1"
package_id = "acme/little"
version = "{version}"
name = "Little"

[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/plugin"]
os = ["linux"]
arch = ["amd64", "arm64"]

[[exports]]
id = "echo"
kind = "tool"
display_name = "Echo"
default_timeout_ms = 1000

[exports.tool]
effect_class = "read_only"
input_schema = "schemas/input.json"
"""


def write(folder: Path, version: str = "0.1.0", manifest: str = MANIFEST, **files: str) -> Path:
    """A package's folder; more files by their names, in which __ is a slash and _ a dot."""
    for name in ("bin", "schemas"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "vai-plugin.toml").write_text(manifest.replace("{version}", version))
    (folder / "bin/plugin").write_text("#!/bin/sh\ncat\n")
    (folder / "bin/plugin").chmod(0o755)
    (folder / "schemas/input.json").write_text(json.dumps({"type": "object"}))
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def packed(folder: Path, **options: str) -> Packed:
    """A little package in a folder of its own below `folder`."""
    made = write(folder / "source", **options)
    (folder / "dist").mkdir(exist_ok=True)
    return pack(made, folder / "dist")


def release_of(made: Packed) -> Release:
    """As the file itself tells it."""
    import tarfile

    with tarfile.open(made.file) as tar:
        found = tar.extractfile(f"blobs/sha256/{made.digest.removeprefix('sha256:')}")
        assert found is not None
        config, _ = parts(found.read())
    return Release(made.package_id, made.version, made.digest, config.digest)


def key(folder: Path, name: str = "key") -> tuple[Path, keys.PublicKey]:
    return folder / name, keys.generate(folder / name)


def sign(made: Packed, private: Path) -> Path:
    beside = Path(made.file).with_name(SIGNATURE)
    beside.write_bytes(signature.sign(release_of(made), keys.read_private(private), trust.now()))
    return beside


def trusting(public: keys.PublicKey, **options: object) -> TrustedPublishers:
    """That key, of acme."""
    return TrustedPublishers(
        publishers={"acme": trust.Publisher(keys=[trust.TrustedKey(key=public.text, **options)])}
    )  # type: ignore[arg-type]


def place(made: Packed) -> PackageLocation:
    found = on_disk(Path(made.file))
    assert found is not None
    return found


def kept(store: Store) -> list[str]:
    """Everything in a store but its empty folders and its lock."""
    return sorted(str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file())[1:]
