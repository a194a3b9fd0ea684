"""The contract vai: packages of tools, hooks, compactors and harnesses, over `vai.rpc.v1`."""
