"""Charts as inline SVG: one path for each outcome, colour and shape, and the same in words."""
