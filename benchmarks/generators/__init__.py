"""Input data. The same seed and number of rows give the same data, whatever the machine."""
