"""Whether a plugin keeps its contract: axes, each a question that only real behaviour answers."""
