"""Where pictures come from: a folder, memory, a benchmark, a subset of one, or drawn by the program."""
