"""What a method is: points, a rule and a summary, as values, and the table of them."""
