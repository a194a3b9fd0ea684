"""The conformance axes of kaged plugins."""

from plughost.conformance.kaged import capabilities, limits, protocol

AXES = (*protocol.AXES, *limits.AXES, *capabilities.AXES)
