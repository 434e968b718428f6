"""What a model does when it runs, and how rules reach into it."""
