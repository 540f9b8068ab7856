"""uv, with the packages' sources of pip: ``python -m tools.uv pip install …``. The standard library alone.

uv does not read pip's configuration, which says on many machines where packages come from: a mirror, a folder of wheels, a certificate.
What the user has set for uv itself (``UV_DEFAULT_INDEX`` …) comes first.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# pip's option, uv's variable, and what separates several values there.
_OPTIONS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
}
_LEVELS = ("global", "install", ":env:")  # the later one counts


def as_variables(listed: Iterable[str]) -> dict[str, str]:
    """The variables of uv for the lines of ``pip config list``."""
    found = dict(line.split("=", 1) for line in listed if "=" in line)
    variables = {}
    for level in _LEVELS:
        for option, (variable, separator) in _OPTIONS.items():
            if (value := found.get(f"{level}.{option}")) is not None:
                variables[variable] = separator.join(str(ast.literal_eval(value)).split())
    if "UV_INDEX" in variables:  # like pip, whichever index has the version; hashes say which file it may be
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return variables


def environ(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: ``given``, and what pip's configuration adds."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list")
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 (of our own making)
    return as_variables(listed.splitlines()) | dict(given)


if __name__ == "__main__":
    binary = str(Path(sys.executable).with_name("uv"))
    os.execve(binary, [binary, *sys.argv[1:]], environ(os.environ))  # noqa: S606 (of our own making)
