"""The notebook of the documentation does what it shows: in virtual time to the last digit.

After a change `python -m tests.notebooks docs/lab/notebook.ipynb` stores its outputs anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import notebooks

NOTEBOOK = Path(__file__).parents[2] / "docs/lab/notebook.ipynb"
pytestmark = pytest.mark.virtual_time


def test_the_notebook_goes_from_an_intent_to_the_plot_that_it_shows() -> None:
    executed, stored = notebooks.execute(NOTEBOOK), notebooks.load(NOTEBOOK)
    assert notebooks.texts(executed) == notebooks.texts(stored)
    assert len(notebooks.pictures(executed)) == len(notebooks.pictures(stored)) == 1
