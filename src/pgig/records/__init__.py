"""What a run keeps: configuration, parts, explanations, and what measures mean. Plain data, without torch."""
