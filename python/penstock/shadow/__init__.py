"""Shadow: exports scenarios for C tor and tgen in Shadow 3, and imports the results."""
