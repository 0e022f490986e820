"""The tables of the history, as statements of SQLite and of PostgreSQL."""

from __future__ import annotations

VERSION = 1

_TABLES = (
    """
    CREATE TABLE rollout (
        number       {number},
        id           {text} NOT NULL UNIQUE,
        network      {text} NOT NULL,
        operator     {text} NOT NULL,
        what         {text} NOT NULL,
        started      {text} NOT NULL,     -- ISO 8601, UTC, as every time here
        confirm_by   {text} NOT NULL,
        base_time_ns {integer} NOT NULL,
        phase        {text} NOT NULL,
        ended        {text},
        detail       {text} NOT NULL,
        plan         {octets}             -- see cnc.rollout.history.encoding
    ) {strict}
    """,
    """
    CREATE TABLE switch_change (
        rollout {integer} NOT NULL REFERENCES rollout (number),
        switch  {text} NOT NULL,
        change  {octets} NOT NULL,        -- see cnc.rollout.history.encoding
        outcome {text} NOT NULL,
        detail  {text} NOT NULL,
        PRIMARY KEY (rollout, switch)
    ) {strict_without_rowid}
    """,
)
_SQLITE = {
    "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "integer": "INTEGER",
    "text": "TEXT",
    "octets": "BLOB",
    "strict": "STRICT",
    "strict_without_rowid": "STRICT, WITHOUT ROWID",
}
_POSTGRESQL = {
    "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "integer": "BIGINT",
    "text": 'TEXT COLLATE "C"',  # in the order of SQLite, whatever the database's own is
    "octets": "BYTEA",
    "strict": "",
    "strict_without_rowid": "",
}
SQLITE, POSTGRESQL = (
    tuple(each.format(**types) for each in _TABLES) for types in (_SQLITE, _POSTGRESQL)
)
