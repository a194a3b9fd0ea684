"""Invocations: a bound export is executed under a deadline and a budget, is recorded, and has one outcome."""
