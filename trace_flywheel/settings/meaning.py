"""What each setting means: the docstrings below the fields of a model.

Pydantic finds them while it makes the class, for every process that has settings and shows none, in more than half of
the time that their import takes. Here they are read when they are asked for.
"""

import ast
import inspect
from functools import cache

from pydantic import BaseModel


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of every field that has one."""
    return _documented(inspect.getfile(model)).get(model.__qualname__, {})


@cache
def _documented(file: str) -> dict[str, dict[str, str]]:
    """By class of a module and field of the class."""
    with open(file, encoding="utf-8") as source:
        module = ast.parse(source.read())
    return {one.name: _fields(one) for one in module.body if isinstance(one, ast.ClassDef)}


def _fields(model: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in zip(model.body, model.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                found[field.target.id] = inspect.cleandoc(text)
    return found
