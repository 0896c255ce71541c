"""A model against a benchmark: figures, beside those of the paper."""
