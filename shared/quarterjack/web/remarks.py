"""The comments beside the fields of a class: the descriptions of the API's documents, written once, in the code."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Mapping
from functools import cache


@cache
def remarks(kind: type) -> Mapping[str, str]:
    """The comment beside each field of a class or member of an enum, by name. None without the source, as in a frozen program."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    found = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type is tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    result = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            target: ast.expr | None = node.target
        else:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            result[target.id] = " ".join(found[line] for line in lines if line in found)
    return result
