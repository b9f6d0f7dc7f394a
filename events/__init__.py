"""The append-only log: what was said, by whom, when; everything else is projected from it."""
