"""The tables of the service, on SQLite and on PostgreSQL.

A decision is one transaction: its row in `audit`, whose number is that of the decision, with all
that it changed. Times are ISO 8601, UTC. What is JSON is text.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)
from sqlalchemy import Text as AnyText
from sqlalchemy.dialects import postgresql

VERSION = 1

# In the order of SQLite, whatever the database's own is.
Text = AnyText().with_variant(postgresql.TEXT(collation="C"), "postgresql")

tables = MetaData()

# `version` of this schema, `network`, `file` (the intent file as it was taken), `plan` (a plan file
# without the rows of its tables), `decided` and `running`: the number of the last decision about
# the plan, and of the last one that switches run; `auto-compute`; `term` of a service that has its
# state for itself. Of several controllers `unknown` and `known`: what switches keep that this
# database does not know, and rollouts that an admin has accepted (`cnc.service.succession`).
TERM = "term"
meta = Table("meta", tables, Column("key", Text, primary_key=True), Column("value", Text))

# The plan: the rows of its tables, and the keys of the intent's streams (section `intent`).
plan_row = Table(
    "plan_row",
    tables,
    Column("section", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# The streams of CUCs, as they were put; those of the intent file are in the plan alone.
stream = Table(
    "stream",
    tables,
    Column("cuc", Text, primary_key=True),
    Column("stream_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("placed", Boolean, nullable=False),
    Column("reason", Text),
    Column("failure_code", Integer, nullable=False),
    Column("decision", Integer, nullable=False),  # the last one about it: its ETag
    Column("rollout", Integer),
    UniqueConstraint("name"),
)

audit = Table(
    "audit",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("time", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("call", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("rollout", Integer),
    sqlite_autoincrement=True,
)

event = Table(
    "event",
    tables,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("time", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("cuc", Text),  # whose it is; null: for whoever may read
    Column("more", Text, nullable=False),
    sqlite_autoincrement=True,
)

token = Table(
    "token",
    tables,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("cuc", Text),
    Column("digest", Text, nullable=False, unique=True),
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("revoked", Text),
    Column("former_digest", Text),  # good until `former_until`, after a rotation
    Column("former_until", Text),
)

# The SSH key by which who has a token logs in over NETCONF.
ssh_key = Table(
    "ssh_key",
    tables,
    Column("token", Text, primary_key=True),
    Column("key", Text, nullable=False),
)

quota = Table(
    "quota",
    tables,
    Column("cuc", Text, primary_key=True),
    Column("streams", Integer, nullable=False),
    Column("requests_per_minute", Integer, nullable=False),
)

# What was answered to a request with an Idempotency-Key, for who repeats it.
answered = Table(
    "answered",
    tables,
    Column("who", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("expires", Text, nullable=False),
)

# Which of several controllers leads, see `cnc.service.lease`.
lease = Table(
    "lease",
    tables,
    Column("network", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("length_ns", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("certificate", Text, nullable=False),
)

Index("answered_expires", answered.c.expires)
Index("stream_state", stream.c.state)
