"""What the stacks of the tests are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parents[2] / "tests" / "infra" / "acme" / "jobs"


FLAGS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "cdk.json").read_text())["context"]


NO_BUNDLING: dict[str, Any] = {"aws:cdk:bundling-stacks": []}
