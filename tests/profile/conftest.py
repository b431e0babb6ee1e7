"""What the tests of profiles share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def traces_go_with_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A profile's trace stays where it was written: here that is a folder of pytest's, which cleans up."""
    kept, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("traces"))
    yield
    tempfile.tempdir = kept
