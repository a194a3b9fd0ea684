"""The API that invocations reach with their tokens, and nobody else: sessions, chains, runs, compactions."""
