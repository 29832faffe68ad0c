"""The vocabulary every part of bakeoff shares, and its command."""
