"""Frozen domain objects: what the words of the vocabulary hold. They know no AWS and no clock."""
