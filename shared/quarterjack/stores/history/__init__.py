"""The history's books: pages of entries, by tenant and day."""
