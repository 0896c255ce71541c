"""Benchmarks: their folder trees, splits and annotation. Only evaluation opens annotation."""
