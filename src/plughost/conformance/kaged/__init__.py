"""The axes of kaged plugins."""

from plughost.conformance.kaged import limits, powers, talk

AXES = (*talk.AXES, *limits.AXES, *powers.AXES)
