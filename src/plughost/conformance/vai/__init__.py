"""The conformance axes of vai plugins."""

from plughost.conformance.vai import outputs, package, protocol, tenancy

AXES = (*package.AXES, *protocol.AXES, *outputs.AXES, *tenancy.AXES)
