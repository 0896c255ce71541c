"""Where training begins: parts that the frozen features suggest by themselves (ours, not the paper's)."""
