# SPDX-License-Identifier: Apache-2.0
"""docs/api: the examples run, public names have entries, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import npugraph
import npugraph_ex
import torchair
from tests.python import api_pages


@pytest.mark.parametrize("page", api_pages.with_examples(npu=False))
def test_examples(page: str, tmp_path: Path) -> None:
    api_pages.check_examples(page, tmp_path)


def test_public_names_have_entries() -> None:
    headings = " ".join(heading for page in api_pages.PAGES for heading in api_pages.headings(page))
    named = set(re.findall(r"\w+", headings))
    assert not {*npugraph.__all__, *npugraph_ex.__all__, *torchair.__all__} - named


@pytest.mark.parametrize("page", api_pages.PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        assert not anchor or anchor in map(_anchor, api_pages.headings(linked)), target


def _anchor(heading: str) -> str:
    """Returns the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
