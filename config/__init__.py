"""Settings, urls, workers and the embedded database: the top of the house, imported by nobody."""
