"""Every reason not to start a run now, and the lease. Read admit first, then lease."""
