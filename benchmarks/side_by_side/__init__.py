"""plughost beside its peers, each in an environment of its own (`make bench-peers`).

Nothing is imported here: the picture is drawn in an environment of its own, too.
"""
