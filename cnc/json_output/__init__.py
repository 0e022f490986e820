"""What the commands print with --json: a pydantic model for each document, built of a result.

A model takes the fields of the result of the same names; `scripts/json-schemas` writes
`docs/reference/json` and `docs/reference/commands-json.md` from the models. A command
imports the module of its documents only for --json, since pydantic and the models cost start-up
time; `commands` imports all of them.
"""
