"""The other side of `benchmarks.contenders.apart`: clients and servers of plughost and of its peers.

Each runs in an environment of its own, not in the benchmark's.
"""
