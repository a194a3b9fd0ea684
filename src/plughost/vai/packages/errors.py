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
    remedy = "correct the package as the message says"


class Altered(PackageRefused):
    """The contents of a package do not match its signature or its digest."""

    code = "package_altered"
    remedy = "get the package again from its publisher; do not use this one"


class Damaged(PackageRefused):
    """The files of a package were changed after the installation."""

    code = "package_damaged"
    remedy = "reinstall the same package: plughost install PACKAGE"


class Untrusted(PackageRefused):
    """A package has no valid signature by a trusted key."""

    code = "package_untrusted"
    remedy = (
        "add the publisher's key to trust.toml if you trust it; for your own package, sign it: plughost sign"
    )


class Unacceptable(PackageRefused):
    """The archive or the contents of a package break a rule."""

    code = "package_unacceptable"
    remedy = "correct the package's folder and pack it again"


class HoldsSecret(PackageRefused):
    """A file in a package contains a secret."""

    code = "package_holds_secret"
    remedy = "remove the secret from the folder, revoke it, and pack again"


class VersionTaken(PackageRefused):
    """The version already exists with different contents."""

    code = "version_taken"
    remedy = "give the package a new version"


class Unpinned(PackageRefused):
    """The lock file does not pin this release and key."""

    code = "package_unpinned"
    remedy = "if the change is intended, install with --save to update the lock file"


class NotInstalled(PackageRefused):
    """The store has no such package."""

    code = "not_installed"
    remedy = "`plughost packages ls` lists the installed packages; `plughost install` adds one"
