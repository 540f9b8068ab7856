"""The eraser removes everything of one tenant, and certifies what was removed and what remains. Begin with ``erase``."""
