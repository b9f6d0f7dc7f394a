"""The door for machines: REST, tokens and webhooks. It holds no rules."""
