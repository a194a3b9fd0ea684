"""JSON Schema checks that may take long, done in worker processes that can be killed."""
