"""Learning the parts: the loop, its batches, previews and checkpoints."""
