"""What is on the shelf. The package marks its place in the import contracts; it has no tables yet."""
