"""Run the command as `python -m bakeoff`."""

from bakeoff.cli import main

main()
