"""What a plugin's process may do, held by the kernel."""
