"""How fast the host is, told as ratios to a raw pipe and to its peers (`make bench`).

Nothing but the standard library is imported here: peers run parts of this package in environments
of their own.
"""
