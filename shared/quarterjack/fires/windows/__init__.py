"""Windows: the runs of the items of a map, of which at most so many are unfinished at a time."""
