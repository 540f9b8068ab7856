"""Values of the history: changes of runs, entries of pages, lines of the archive, outgoing events."""
