"""What the tests need beside Python: other people's programs."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str, package: str) -> str:
    """The path of a program of a Debian package; without it the test is skipped, or fails where it is required."""
    found = shutil.which(name)
    if found:
        return found
    reason = f"{name} is not on PATH (Debian package {package})"
    if os.environ.get("LEADLINE_REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
