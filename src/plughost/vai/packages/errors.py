"""Errors about packages, below PackageRefused.

PackageRefused
├── Altered        its bytes, or what was signed, are not what they were
├── Damaged        its installed files are not those that were installed
├── Untrusted      it has no signature by a trusted key
├── Unacceptable   its archive or its content breaks a rule
├── HoldsSecret    a file in it contains a secret
├── VersionTaken   this version exists already, with other bytes
├── Unpinned       the lock file has other bytes or another key, or no entry
└── NotInstalled   the store has no such package
"""

from __future__ import annotations

from plughost.errors import PluginError


class PackageRefused(PluginError):
    """A package cannot be used; base class of the errors about packages."""

    code = "package_refused"


class Altered(PackageRefused):
    """The bytes of a package are not those that were signed, or not those that its digest names."""

    code = "package_altered"


class Damaged(PackageRefused):
    """The installed files of a package are not those that were installed."""

    code = "package_damaged"


class Untrusted(PackageRefused):
    """A package has no valid signature by a trusted key."""

    code = "package_untrusted"


class Unacceptable(PackageRefused):
    """The archive or the content of a package breaks a rule."""

    code = "package_unacceptable"


class HoldsSecret(PackageRefused):
    """A file in a package contains a secret."""

    code = "package_holds_secret"


class VersionTaken(PackageRefused):
    """The version exists already, with other bytes."""

    code = "version_taken"


class Unpinned(PackageRefused):
    """The lock file does not pin this release and key."""

    code = "package_unpinned"


class NotInstalled(PackageRefused):
    """The store has no such package."""

    code = "not_installed"
