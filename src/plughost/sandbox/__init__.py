"""The sandbox: kernel-enforced access and resource limits for a plugin's processes."""
