"""What a plugin's process may do, turned into what the kernel lets it do."""
