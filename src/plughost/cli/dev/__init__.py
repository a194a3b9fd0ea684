"""Parts of `plughost dev`: build, watch files, read stdin, log frames."""
