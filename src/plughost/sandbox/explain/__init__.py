"""`plughost explain`: what a plugin may do, which grant allows it, and what enforces it."""
