# SPDX-License-Identifier: Apache-2.0
"""docs/api and docs/guides: the examples that need torch_npu run, and all names of ``torch.npu`` are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.python import api_pages


@pytest.mark.parametrize("page", api_pages.with_examples(npu=True))
def test_examples_of_the_pages_run(page: str, tmp_path: Path) -> None:
    api_pages.check_examples(page, tmp_path)


def test_names_of_the_device_are_listed() -> None:
    words = {word for page in api_pages.PAGES for word in re.findall(r"\w+", page.read_text())}
    kinds = re.compile(r"\w+(Storage|Tensor)")  # there is one of these for each dtype
    assert not [name for name in torch.npu.__all__ if name not in words and not kinds.fullmatch(name)]
