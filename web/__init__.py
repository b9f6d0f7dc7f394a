"""The door for people: pages and documents. It holds no rules."""
