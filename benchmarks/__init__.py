"""Speed and memory, always as a ratio to a plain reading of the paper in the same run."""
