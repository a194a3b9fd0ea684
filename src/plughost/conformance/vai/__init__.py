"""The axes of vai plugins."""

from plughost.conformance.vai import honesty, package, talk, tenancy

AXES = (*package.AXES, *talk.AXES, *honesty.AXES, *tenancy.AXES)
