"""Tables and figures of the paper, and one's own studies: data, expanded into runs, ending in a page."""
