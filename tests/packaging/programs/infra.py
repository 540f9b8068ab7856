"""The extra infra: an application of one's own in an empty folder is synthesised, its bundles included."""

from __future__ import annotations

import sys
import zipfile
from importlib import import_module
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

bundles = [zipfile.ZipFile(place) for place in Path("cdk.out").glob("asset.*.zip")]
held = [set(bundle.namelist()) for bundle in bundles]
assert all({"functions/ticker/handler.py", "quarterjack/__init__.py", "boto3/__init__.py"} <= names for names in held)
assert sum("jobs.py" in names for names in held) == 1, [sorted(names)[:5] for names in held]
