"""Runs: a folder of a configuration and finished parts. Resuming is skipping what is finished."""
