"""`python -m gateway`: the same as `reverie`."""

from gateway.cli import main

main()
