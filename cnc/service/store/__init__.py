"""The store of the service: SQLite (WAL, synchronous=FULL) on SQLAlchemy, one writer."""

from cnc.service.store.decision import Decision
from cnc.service.store.records import Asker, Quota, State, StreamRecord, TokenRecord
from cnc.service.store.store import FILE_NAME, Store

__all__ = [
    "FILE_NAME",
    "Asker",
    "Decision",
    "Quota",
    "State",
    "Store",
    "StreamRecord",
    "TokenRecord",
]
