"""The commands about schedules: create and change them, look ahead, apply files, import from elsewhere."""
