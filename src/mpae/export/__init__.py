"""A trained model for other programs: ONNX, int8."""
