"""How long the suite runs: a few minutes in CI; for `make soak` about as many as LEADLINE_SOAK says.

Random choices come from one seed, LEADLINE_SEED or a new one each run, which is printed: what was chosen once can
be chosen again.
"""

from __future__ import annotations

import os
import random
import zlib
from dataclasses import dataclass, field

MINUTES = float(os.environ.get("LEADLINE_SOAK", "0"))
SEED = int(os.environ.get("LEADLINE_SEED") or random.SystemRandom().randrange(1 << 32))


def times(short: int, a_minute: float = 0.0) -> int:
    """How often to do something: `short` in CI; in a soak `a_minute` for each of its minutes, if that is more."""
    return max(short, round(a_minute * MINUTES))


def chance(name: str) -> random.Random:
    """The random choices of one test, which do not depend on what ran before it."""
    return random.Random(SEED ^ zlib.crc32(name.encode()))  # noqa: S311 - moments and texts, not secrets


@dataclass
class Findings:
    """What was done and found, a line a fact, for the report at the end."""

    lines: list[str] = field(default_factory=list)

    def say(self, fact: str) -> None:
        """Add a fact."""
        self.lines.append(fact)


FINDINGS = Findings()
