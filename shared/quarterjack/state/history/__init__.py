"""The history's books without I/O: which entries a change makes, how they are stored in pages, which pages a search reads.

Read ``entries``, ``codec``, ``search``, ``merge``.
"""
