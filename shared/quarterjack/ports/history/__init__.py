"""What the history needs: the stream of runs, its pages, the archive and receivers of events."""
