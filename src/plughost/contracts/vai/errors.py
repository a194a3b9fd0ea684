"""The errors of vai plugins, in addition to those of every plugin."""

from __future__ import annotations

from plughost.errors import HandshakeFailed, Malformed

INVALID_FRAME = "protocol.invalid_frame"


class InvalidFrame(Malformed):
    """A frame violates `vai.rpc.v1`."""

    code = INVALID_FRAME
    remedy = "write only frames to stdout: print to stderr instead, or use the SDK, which does that for you"


class IdentityMismatch(HandshakeFailed):
    """The package or version in the plugin's hello is not the installed one."""

    code = "identity_mismatch"
    remedy = "send the package_id and version of vai-plugin.toml in the plugin's hello, then pack it again"
