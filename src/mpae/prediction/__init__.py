"""From images to parts, and the files that are written of them."""
