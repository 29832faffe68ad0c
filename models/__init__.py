"""What is served: sources, engines, precisions, calibration and labelled data."""
