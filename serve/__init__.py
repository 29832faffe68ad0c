"""The Ray Serve applications, one for each arm, and the front door before them."""
