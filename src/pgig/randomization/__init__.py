"""Layers with new weights, and how alike attributions stay."""
