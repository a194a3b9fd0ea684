"""JSON Schema: compile and check, with an estimate of what that costs."""
