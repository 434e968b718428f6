"""The engine: gradients at points, chunk by chunk, summed up."""
