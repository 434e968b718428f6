"""The page where a person asks a network questions: `pgig app`. No attribution of its own: it asks, keeps and shows."""
