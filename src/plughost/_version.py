"""The version of this package, as it was installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("plughost")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
