"""Load on schedule, raw records, and what they say: statistics, cost, verdict, report."""
