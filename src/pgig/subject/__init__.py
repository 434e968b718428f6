"""A model bound for explaining, its inputs, and the scalar that is explained."""
