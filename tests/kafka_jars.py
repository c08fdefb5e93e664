"""The jars of Apache Kafka: Maven fetches them once into the cache, and every use verifies them.

Maven's own configuration holds (``settings.xml``: mirror, proxy). To move to another version, change
``tests/kafka/pom.xml``, have Maven copy its dependencies into an empty directory and put what ``sha256sum *.jar``
says there into ``tests/kafka/jars.sha256``.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from agent.artefacts import sha256_of
from agent.downloads import cache_directory
from agent.errors import ArtefactError, ServiceError

RECIPE = Path(__file__).parent / "kafka"
TIMEOUT_SECONDS = 600.0


def jars(cache: Path | None = None) -> list[Path]:
    """What a broker's classpath holds, verified.

    ServiceError: no Maven or no network; ArtefactError: other files are served than those expected.
    """
    wanted = _wanted()
    home = (cache or cache_directory()) / f"kafka-{_version(wanted)}"
    if not _holds(home, wanted):
        home.parent.mkdir(parents=True, exist_ok=True)
        # One process fetches and the others wait: Maven's own repository is not made for two writers either.
        with (home.parent / "kafka.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _holds(home, wanted):
                _fetch(home, wanted)
    return [home / name for name in wanted]


def _wanted() -> dict[str, str]:
    lines = (RECIPE / "jars.sha256").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _version(wanted: dict[str, str]) -> str:
    return next(match[1] for name in wanted if (match := re.fullmatch(r"kafka-clients-(.+)\.jar", name)))


def _holds(home: Path, wanted: dict[str, str]) -> bool:
    return all((home / name).is_file() and sha256_of(home / name) == wanted[name] for name in wanted)


def _fetch(home: Path, wanted: dict[str, str]) -> None:
    # Fetched beside its final place: the rename is atomic, so that a run cut short leaves nothing half done.
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        fresh = Path(scratch) / "jars"
        _run_maven(fresh)
        if not _holds(fresh, wanted):
            raise ArtefactError("Maven brought other files than tests/kafka/jars.sha256 names; they were not kept")
        if home.exists():
            home.rename(Path(scratch) / "spoilt")
        fresh.rename(home)


def _run_maven(out: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError("mvn is not on PATH (Debian package maven); it fetches Apache Kafka")
    command = [maven, "--batch-mode", "--quiet", "--file", str(RECIPE / "pom.xml"), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={out}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"fetching Apache Kafka took over {TIMEOUT_SECONDS:.0f} s; try again") from error
    if done.returncode:
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), "it did not say why")
        raise ServiceError(f"Maven could not fetch Apache Kafka: check the network, or settings.xml: {said}")
