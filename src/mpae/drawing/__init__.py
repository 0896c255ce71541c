"""Pictures to look at: colours of parts, overlays, contingency tables."""
