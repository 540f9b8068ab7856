"""Forms: what every item and message looks like as a release writes it, kept as JSON under tests/data/forms/<release>.

    python -m tests.support.forms --write     writes those of this release

One installation in the local cloud is brought to hold one of everything; then its tables and queues are read as they are. Ids and
times that differ from run to run are those of a fixed story: only their shape is compared (``shape``).
"""

from __future__ import annotations

from tests.support.forms.jobs import jobs
from tests.support.forms.kept import FOLDER, as_stored, kept, kind_of, releases, shape, shapes
from tests.support.forms.story import START, Story

__all__ = ["FOLDER", "START", "Story", "as_stored", "jobs", "kept", "kind_of", "releases", "shape", "shapes"]
