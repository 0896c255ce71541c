"""`python -m mpae.cli`, for torchrun."""

from mpae.cli.app import main

main()
