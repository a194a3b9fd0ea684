"""What goes wrong with a vai plugin beside what goes wrong with any."""

from __future__ import annotations

from plughost.errors import HandshakeFailed, Malformed

INVALID_FRAME = "protocol.invalid_frame"


class InvalidFrame(Malformed):
    """A frame that is not of `vai.rpc.v1`."""

    code = INVALID_FRAME


class IdentityMismatch(HandshakeFailed):
    """It says that it is another package, or another version, than the one that is installed."""

    code = "identity_mismatch"
