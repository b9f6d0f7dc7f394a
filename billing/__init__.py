"""What it cost: dated prices and the cost of use."""
