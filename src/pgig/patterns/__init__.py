"""Patterns: estimated from data, merged, judged, saved and loaded."""
