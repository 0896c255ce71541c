"""What `make_results.py` is made of: run folders are read, examined, drawn and written up."""
