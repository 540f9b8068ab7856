"""The extra infra: an application of one's own in an empty folder is synthesised, its bundles included."""

from __future__ import annotations

import re
import sys
import zipfile
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

Path("acme").mkdir()
Path("acme", "__init__.py").write_text("")
Path("acme", "jobs.py").write_text(
    'from quarterjack import job\n\n@job("acme.greet")\ndef greet(ctx, payload):\n    return payload\n'
)
ours = import_module("quarterjack.infra")  # in a checkout it has another name
cdk = import_module("aws_cdk")

app = cdk.App(outdir="cdk.out")
ours.Quarterjack(cdk.Stack(app, "Users"), "Jobs", jobs="acme/jobs.py")
app.synth()
assert Path("cdk.out", "Users.template.json").is_file()
assert "cdk_nag" not in sys.modules

pinned = re.search(
    r"^boto3==(\S+)", distribution("quarterjack").read_text("extra_metadata/constraints.txt") or "", re.MULTILINE
)
assert pinned is not None  # the versions of its release
bundles = [zipfile.ZipFile(place) for place in Path("cdk.out").glob("asset.*.zip")]
held = [set(bundle.namelist()) for bundle in bundles]
assert all(
    {"functions/ticker/handler.py", "quarterjack/__init__.py", f"boto3-{pinned[1]}.dist-info/METADATA"} <= names
    for names in held
)
assert sum("acme/jobs.py" in names for names in held) == 1
