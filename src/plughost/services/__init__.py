"""The built-in services of the host for plugins: logs, snapshots, actions, files, network, storage. Each
needs a capability."""
