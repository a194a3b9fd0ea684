"""vai: packages of harnesses, tools, hooks and compactors, spoken to in `vai.rpc.v1`."""
