"""The errors of vai plugins, in addition to those of every plugin."""

from __future__ import annotations

from plughost.errors import HandshakeFailed, Malformed

INVALID_FRAME = "protocol.invalid_frame"


class InvalidFrame(Malformed):
    """A frame that violates `vai.rpc.v1`."""

    code = INVALID_FRAME
    remedy = "write only frames to stdout: print to stderr instead, or use the SDK, which does that for you"


class IdentityMismatch(HandshakeFailed):
    """The plugin's hello names another package or version than the installed one."""

    code = "identity_mismatch"
    remedy = "make the name and version in the plugin's hello those of vai-plugin.toml, then pack it again"
