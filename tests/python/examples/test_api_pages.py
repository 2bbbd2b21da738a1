# SPDX-License-Identifier: Apache-2.0
"""docs/api and docs/guides: the examples run, public names have entries, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import npugraph
import npugraph_ex
import torchair
from tests.python import api_pages


@pytest.mark.parametrize("page", api_pages.with_examples(npu=False))
def test_examples_of_the_pages_run(page: str, tmp_path: Path) -> None:
    package = api_pages.OTHERS.get(page)
    if package and importlib.util.find_spec(package) is None:
        # Neither the product nor its other tests need these packages, and timm's torchvision has to fit the torch here.
        pytest.skip(f"{package} is not installed")
    api_pages.check_examples(page, tmp_path)


def test_public_names_have_entries() -> None:
    headings = " ".join(heading for page in api_pages.PAGES for heading in api_pages.headings(page))
    named = set(re.findall(r"\w+", headings))
    assert not {*npugraph.__all__, *npugraph_ex.__all__, *torchair.__all__} - named


def test_links_of_the_pages_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in api_pages.PAGES + api_pages.GUIDES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    ]
    assert len(links) > len(api_pages.PAGES)
    for page, target in links:
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), (page, target)
        assert not anchor or anchor in map(_anchor, api_pages.headings(linked)), (page, target)


def _anchor(heading: str) -> str:
    """Returns the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
