"""Write the dashboards: `python -m deploy.grafana`."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana.model import PER_MODEL
from deploy.grafana.overview import OVERVIEW

DIRECTORY = Path(__file__).parent / "dashboards"
DASHBOARDS = (OVERVIEW, PER_MODEL)


def files() -> dict[Path, str]:
    """Each file that there should be, and what should stand in it."""
    return {
        DIRECTORY / f"{each.uid}.json": json.dumps(each.json(), indent=2, ensure_ascii=False) + "\n"
        for each in DASHBOARDS
    }


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
        print(file.name)
