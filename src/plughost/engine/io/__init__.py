"""The bytes of one plugin process: spawn and exit, pipes, stderr, taps, and the records of its denials."""
