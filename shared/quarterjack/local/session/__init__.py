"""One ``quarterjack local``: the examples, the table of what happens, and the verification of every fire at the end.

Reading order: ``session`` (from start to summary), ``examples``, ``status`` (the table), ``verifier``.
"""
