"""The store of the service on SQLAlchemy, with one writer: SQLite (WAL, synchronous=FULL), or
PostgreSQL (synchronous_commit=on) for several controllers."""

from cnc.service.store.database import Database, Fence
from cnc.service.store.decision import Decision
from cnc.service.store.postgresql import url_of
from cnc.service.store.records import Asker, KeyedRequest, Quota, State, StreamRecord, TokenRecord
from cnc.service.store.shared_history import SharedHistory
from cnc.service.store.store import FILE_NAME, Store

__all__ = [
    "FILE_NAME",
    "Asker",
    "Database",
    "Decision",
    "Fence",
    "KeyedRequest",
    "Quota",
    "SharedHistory",
    "State",
    "Store",
    "StreamRecord",
    "TokenRecord",
    "url_of",
]
