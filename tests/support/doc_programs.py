"""Pages of the documentation that are whole programs: their files, written as a reader would, and processes that run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from sybil.document import Document
from sybil.parsers.markdown import CodeBlockParser

from tests.support.doc_pages import ROOT, page

PROGRAMS = ("docs/how-to/django.md", "docs/how-to/fastapi.md")
_FILE = re.compile(r"# (add to )?(\S+\.py)\n")
_FOREIGN = ("AWS_", "DJANGO_", "QUARTERJACK_")  # variables of this process that say nothing to a program


class Program:
    """The program of a page in a folder. Its processes have the variables ``where``; they end with the ``with`` block."""

    def __init__(self, name: str, folder: Path, where: Mapping[str, str]) -> None:
        self.name, self.folder, self._cleanup = name, folder, ExitStack()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        path = os.pathsep.join([str(folder), str(ROOT / "shared"), *sys.path])
        self._environ = {**kept, **where, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._cleanup.close()

    def write(self) -> None:
        """Write each block that begins with ``# file.py``; append one that begins with ``# add to file.py``."""
        for block in Document.parse(str(page(self.name).path), CodeBlockParser("python", lambda _: None)).examples():
            found = _FILE.match(block.parsed)
            assert found, f"{self.name}: a block of a whole program names its file"
            place = self.folder / found[2]
            place.parent.mkdir(parents=True, exist_ok=True)
            before = place.read_text(encoding="utf-8") if found[1] else ""
            place.write_text(before + block.parsed, encoding="utf-8")

    def python(self, *words: str) -> str:
        """What ``python …`` prints, errors included. It has to succeed."""
        code, output = self._run(*words)
        assert code == 0, f"{' '.join(words)}:\n{output}"
        return output

    def dies(self, *words: str) -> None:
        """Run ``python …``, which ends itself with the code 9."""
        code, output = self._run(*words)
        assert code == 9, output

    def _run(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        return done.returncode, done.stdout

    def start(self, called: str, *words: str) -> subprocess.Popen[bytes]:
        """Start ``python …``; ``log(called)`` is what it prints."""
        output = self._cleanup.enter_context(self.folder.joinpath(f"{called}.log").open("wb"))
        line = [sys.executable, *words]
        process = subprocess.Popen(line, cwd=self.folder, env=self._environ, stdout=output, stderr=subprocess.STDOUT)
        self._cleanup.callback(process.wait)
        self._cleanup.callback(process.kill)
        return process

    def log(self, called: str) -> str:
        """What a process has printed."""
        return self.folder.joinpath(f"{called}.log").read_text(encoding="utf-8")
