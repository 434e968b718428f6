"""Tables, figures and pages. Nothing here needs torch: it takes arrays."""
