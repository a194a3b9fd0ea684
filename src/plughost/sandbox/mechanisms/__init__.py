"""What the kernel offers to confine a plugin, and how it is asked: bubblewrap, Landlock, seccomp."""
