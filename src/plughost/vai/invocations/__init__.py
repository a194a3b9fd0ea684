"""vai's runtime: a bound export executed under a deadline and a budget, recorded, with one outcome."""
