"""Benchmarks: `manage.py bench NAME`. Each compares with a yardstick measured in the same run (docs/bench.md)."""
