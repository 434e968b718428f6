"""Heat maps and figures: arrays in, pictures out. Nothing here needs torch."""
