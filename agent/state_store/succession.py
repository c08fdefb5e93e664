"""What a state of another owner leaves to the new one: open episodes, so that their end is told, and no texts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.alert_report import Outcome
from agent.state_store.decided import episode_row, read_episode
from agent.state_store.faults import Fault, judged
from agent.state_store.files import PATIENCE, facts_of, opened
from agent.state_store.rows import Rows, verified

if TYPE_CHECKING:
    from pathlib import Path

    from agent.alert_report import Episode
    from agent.state_store.faults import UnusableError

# Where there are texts: those kept, and those of records that wait for their other half.
WITH_TEXTS = ("texts", "halves")


def left_by(path: Path, error: UnusableError, now: float) -> list[Episode]:
    """The episodes that were open in a state which is put aside because of this, ended by that.

    Deletes the texts from a state that is whole: nobody will when their time is over. UnusableError if it turns
    out to be damaged, RefusedError if it cannot be read or written.
    """
    if error.fault is not Fault.OTHER_OWNER:
        return []
    with judged():
        with closing(sqlite3.connect(path, PATIENCE)) as database:
            owner = facts_of(database)["owner"]
        with closing(opened(path, owner)) as database:
            found = _open_episodes(database)
            _forget_texts(database)
    return [replace(each, resolved=now, outcome=Outcome.SUPERSEDED) for each in found]


def bequeath(database: sqlite3.Connection, episodes: list[Episode]) -> None:
    """Write these episodes into a new state. RefusedError if the disk refuses."""
    with judged(), closing(database.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        rows = Rows(cursor)
        for place, episode in enumerate(episodes):
            rows.put("episodes", (place,), episode_row(episode))
        rows.finish()
        cursor.execute("COMMIT")


def _open_episodes(database: sqlite3.Connection) -> list[Episode]:
    with closing(database.cursor()) as cursor:
        rows = [row for table, row in verified(cursor) if table == "episodes"]
    episodes = [read_episode(str(content)) for _, content in rows]
    return [episode for episode in episodes if episode.open]


def _forget_texts(database: sqlite3.Connection) -> None:
    with closing(database.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        rows = Rows(cursor)
        for table in WITH_TEXTS:
            rows.replace(table, {})
        rows.finish()
        cursor.execute("COMMIT")
        # The database overwrites what it deletes; its log stays when it is closed if somebody reads beside.
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
