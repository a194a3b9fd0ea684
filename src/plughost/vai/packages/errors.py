"""Why a package was refused.

PackageRefused
├── Altered        its bytes, or what was signed, are not what they were
├── Damaged        its installed files are not those that were installed
├── Untrusted      nobody who is trusted has signed it
├── Unacceptable   its archive or its content breaks a rule
├── HoldsSecret    a secret lies in it
├── VersionTaken   this version is already there, with other bytes
├── Unpinned       the lock file names other bytes or another key, or none
└── NotInstalled   the store has no such package
"""

from __future__ import annotations

from plughost.errors import PluginError


class PackageRefused(PluginError):
    code = "package_refused"


class Altered(PackageRefused):
    code = "package_altered"


class Damaged(PackageRefused):
    code = "package_damaged"


class Untrusted(PackageRefused):
    code = "package_untrusted"


class Unacceptable(PackageRefused):
    code = "package_unacceptable"


class HoldsSecret(PackageRefused):
    code = "package_holds_secret"


class VersionTaken(PackageRefused):
    code = "version_taken"


class Unpinned(PackageRefused):
    code = "package_unpinned"


class NotInstalled(PackageRefused):
    code = "not_installed"
