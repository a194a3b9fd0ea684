"""OCI image layouts on disk: a folder, or one tar file."""
