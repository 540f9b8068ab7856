"""The version of this package, which its wheel has from here, and the place of its documentation.

Between two releases it is that of the next one with ``.dev0``, so that a checkout is not taken for a release: see CONTRIBUTING.md.
"""

VERSION = "0.3.0.dev0"
DOCUMENTATION = "docs/index.md in the source tree (first docs/tutorial.md)"  # where help texts send a reader
