"""Records of invocations: the journal, the database behind it, and their retention."""
