"""The web page: look at parts, name them, search by them, find what looks wrong."""
