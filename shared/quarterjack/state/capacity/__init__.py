"""The capacity model: ``figures`` are its inputs, ``model`` says how late fires of one instant start, ``walls`` where growth ends."""
