"""The pages of the documentation, read by a Markdown parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
_SHELL = ("bash", "console", "sh", "shell")


@dataclass(frozen=True)
class Page:
    """One page."""

    path: Path

    @property
    def name(self) -> str:
        """Its path within the repository."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tokens(self) -> list[Token]:
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    @cached_property
    def links(self) -> list[str]:
        """Where its links and pictures lead."""
        inline = [child for token in self.tokens for child in token.children or []]
        found = [token.attrGet("href") or token.attrGet("src") for token in inline]
        return [str(target) for target in found if target]

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        return {_slug(inline.content) for opening, inline in pairs if opening.type == "heading_open"}

    @cached_property
    def prose_code(self) -> list[str]:
        """What stands in backticks within its text."""
        inline = [child for token in self.tokens for child in token.children or []]
        return [token.content for token in inline if token.type == "code_inline"]

    def shell_lines(self) -> Iterator[str]:
        """The lines of its shell examples, without prompts and comments: fenced, or indented on pages that tell what to do."""
        tells_what_to_do = not self.name.startswith(("docs/adr/", "docs/explanation/", "docs/reference/"))
        for token in self.tokens:
            indented = token.type == "code_block" and tells_what_to_do
            if indented or (token.type == "fence" and token.info.strip() in _SHELL):
                for line in token.content.replace("\\\n", " ").splitlines():
                    command = re.sub(r"(^|\s)#.*", "", line.strip().removeprefix("$ ")).strip()
                    if command:
                        yield command


def _slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def all_pages() -> list[Page]:
    """The pages of the top level and everything under docs/."""
    top = (page(f"{name}.md") for name in ("README", "CHANGELOG", "CONTRIBUTING", "AGENTS", "SECURITY"))
    return [*top, *map(page_at, sorted((ROOT / "docs").rglob("*.md")))]


def page(name: str) -> Page:
    """A page by its path within the repository."""
    return page_at(ROOT / name)


@cache
def page_at(path: Path) -> Page:
    """A page by its path, read and parsed once."""
    return Page(path)
