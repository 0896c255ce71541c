"""Images and, for evaluation alone, what people annotated in them."""
