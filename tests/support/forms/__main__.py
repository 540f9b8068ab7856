"""python -m tests.support.forms --write"""

from __future__ import annotations

import json
import sys

from quarterjack.testing.cloud import fresh_settings, running_cloud

from tests.support import forms
from tests.support.released import LINE, check_open


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        sys.exit(forms.__doc__)
    check_open()
    with running_cloud() as cloud:
        written = forms.Story(fresh_settings(cloud)).tell()
    folder = forms.FOLDER / LINE
    folder.mkdir(parents=True, exist_ok=True)
    for name, items in written.items():
        text = json.dumps(items, indent=1, sort_keys=True, ensure_ascii=False)
        text = text.replace(f"{forms.FOLDER.parents[2]}/", "")  # no path of this machine
        (folder / f"{name}.json").write_text(text + "\n")


main()
