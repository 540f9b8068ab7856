"""The stream of the table of runs, the history's pages and the archive."""
