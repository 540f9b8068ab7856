"""Time zones: from wall-clock seconds to instants, under the schedule's DST policy."""
