"""Host the servers that bakeoff is measured against."""
