"""Measure bakeoff beside its peers, in one run on one machine."""
