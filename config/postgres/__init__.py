"""Django's PostgreSQL backend that starts the embedded server on the first connection."""
