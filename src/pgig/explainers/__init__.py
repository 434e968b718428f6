"""Explainers: methods, variants of them, occlusion, and what a user enters beside them."""
