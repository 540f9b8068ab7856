"""How to install an extra of this package. The package is not on PyPI, so commands name the wheel file, never the bare name."""

from __future__ import annotations

from quarterjack.version import VERSION

# Once the package is published: "quarterjack". A test then names the lines of the documentation that have to follow.
SOURCE = f"./quarterjack-{VERSION}-py3-none-any.whl"
_CHECKOUT = "."


def requirement(*extras: str) -> str:
    """This package with ``extras``, as a line of ``requirements.txt`` or an argument of pip and uv."""
    return _with(SOURCE, extras)


def install_remedy(*extras: str) -> str:
    """The command that installs ``extras``, from the wheel file and from a checkout."""
    return f"pip install '{requirement(*extras)}' (in a checkout: '{_with(_CHECKOUT, extras)}')"


def _with(source: str, extras: tuple[str, ...]) -> str:
    return f"{source}[{','.join(extras)}]"
