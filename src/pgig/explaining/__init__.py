"""The front door: attribute(), explain(), check()."""
