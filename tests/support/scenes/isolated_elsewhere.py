"""A module whose import makes its process one on a system whose kernel does not kill a group when a pipe closes."""

import fcntl

if hasattr(fcntl, "F_SETSIG"):
    del fcntl.F_SETSIG
