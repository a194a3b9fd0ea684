"""Sandbox mechanisms of the kernel: which are available here, and how bubblewrap, Landlock and seccomp are
invoked."""
