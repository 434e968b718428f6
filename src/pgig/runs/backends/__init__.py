"""Backends: where the parts of a run are worked on. Equal requests give equal records, whatever the backend."""

from pgig.runs.backends.processes import Processes
from pgig.runs.backends.ray import Ray
from pgig.runs.backends.serial import Serial

__all__ = ["Processes", "Ray", "Serial"]
