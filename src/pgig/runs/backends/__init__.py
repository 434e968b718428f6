"""Backends: where the parts of a run are worked on. Equal requests give equal records, whatever the backend."""
