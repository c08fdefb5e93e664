"""The user's own function that takes out of a text what must not be kept."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from agent.errors import UsageError

# Gives what may be kept of a text; None keeps nothing of it.
Redact = Callable[[str], str | None]


def as_it_is(text: str) -> str:
    """All of it: where the configuration names no function."""
    return text


def redaction_of(name: str | None) -> Redact:
    """The function that `package.module:function` names, imported from the environment Leadline runs in.

    UsageError if there is none by that name. It runs with the agent's rights, as the configuration does.

    >>> redaction_of("string:capwords")("kept   small")
    'Kept Small'
    """
    if name is None:
        return as_it_is
    module, _, function = name.partition(":")
    where = f"annotation.redact: {name}"
    try:
        found = getattr(importlib.import_module(module), function, None)
    except Exception as error:
        # A module may break in any way while it is imported.
        raise UsageError(
            f"{where}: the module {module!r} cannot be imported ({type(error).__name__}). "
            "Install it where Leadline runs, or correct the name."
        ) from error
    if found is None:
        raise UsageError(f"{where}: the module {module!r} has no {function!r}. Correct the name.")
    if not callable(found):
        raise UsageError(f"{where} is not a function.")
    redact: Redact = found
    return redact
