"""One file a tab."""
