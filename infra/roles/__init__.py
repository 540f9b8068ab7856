"""The functions of an installation and what starts them: clock, queue or stream."""
