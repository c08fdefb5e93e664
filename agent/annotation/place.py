"""Where batches go, looked at before anything is written there."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent.annotation.redaction import redaction_of
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.alert_config import AnnotationConfig


def look_at(config: AnnotationConfig) -> str:
    """What will be kept and where, in words. UsageError if it cannot be; nothing that is made is left there."""
    path = config.path.absolute()
    nearest = next(each for each in (path, *path.parents) if each.exists())
    if not nearest.is_dir():
        raise UsageError(f"annotation.path: {config.path} cannot be a directory: {nearest} is a file")
    try:
        # A try tells more than permissions do: of a file system that is full, read-only, or no place for files.
        TemporaryDirectory(prefix=".leadline-check-", dir=nearest).cleanup()
    except OSError as error:
        raise UsageError(
            f"annotation.path: {config.path}: {nearest} cannot be written to: {error.strerror}"
        ) from error
    redaction_of(config.redact)
    return f"batches go to {config.path}, {_texts(config)}"


def _texts(config: AnnotationConfig) -> str:
    if not config.texts:
        return "without texts"
    redacted = f"after {config.redact}" if config.redact else "as they come, for there is no `redact`"
    return f"with texts, {redacted}, for {config.keep / 86_400:.3g} days"
