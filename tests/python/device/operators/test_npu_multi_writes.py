# SPDX-License-Identifier: Apache-2.0
"""Operators that write several arguments: inputs in place, and in functional forms tensors that nothing reads later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch_npu

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.attention.test_npu_mla import INDEX, kv_arguments, mla_arguments
from tests.python.device.npu_operators import normal, on

PLACES = pytest.mark.parametrize("place", ["cpu", "npu"])

# Operator, its functional form, arguments, the positions of those that it writes, and keyword arguments.
Row = tuple[Callable[..., Any], Callable[..., Any], Sequence[Any], tuple[int, int], dict[str, Any]]
ROWS: dict[str, Row] = {
    "kv_rmsnorm_rope_cache_v2": (
        torch_npu.npu_kv_rmsnorm_rope_cache_v2,
        torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional,
        kv_arguments("PA"),
        (5, 6),
        {"cache_mode": "PA"},
    ),
    "mla_prolog_v3": (
        torch_npu.npu_mla_prolog_v3,
        torch_npu.npu_mla_prolog_v3_functional,
        mla_arguments(6),
        (9, 10),
        {"cache_index": INDEX},
    ),
    "add_rms_norm_v2": (
        torch_npu.npu_add_rms_norm_v2,
        torch_npu.npu_add_rms_norm_v2_functional,
        (normal(6, 16), normal(6, 16, seed=1), normal(16, seed=2)),
        (0, 1),
        {},
    ),
}


def run(fn: Callable[..., Any], args: Sequence[Any], place: str, **options: Any) -> tuple[Any, npugraph.Artifact]:
    """Checks that results and arguments after the call are those of eager mode. Returns them and the artifact."""
    npugraph.reset()
    given, expected = on(place, list(args)), on(place, list(args))
    with torch.no_grad():
        got, want = compile_ex(fn, options=options)(*given), fn(*expected)
    torch.testing.assert_close((got, given), (want, expected))
    return (got, given), npugraph.artifacts()[-1]


@pytest.mark.feature("2.14", "1.13")
@pytest.mark.parametrize("name", ROWS)
@PLACES
def test_inputs_are_written_where_they_stand(name: str, place: str) -> None:
    op, _, args, written, given = ROWS[name]
    given = on(place, given)

    def fn(*args: torch.Tensor) -> Any:
        results = op(*args, **given)
        return results, *(args[i] * 2 for i in written)

    on_, artifact = run(fn, args, place)
    assert artifact.memory["copied_bytes_per_replay"] == 0
    off, copying = run(fn, args, place, input_inplace_pass=False)
    torch.testing.assert_close(on_, off, rtol=0, atol=0)
    bytes_written = sum(args[i].numel() * 4 for i in written)
    assert copying.memory["copied_bytes_per_replay"] >= bytes_written


@pytest.mark.feature("2.13", "1.13")
@pytest.mark.parametrize("name", ROWS)
@PLACES
def test_functional_forms_write_what_dies(name: str, place: str) -> None:
    """Arguments that something reads later are copied first."""
    _, op, args, written, given = ROWS[name]
    given = on(place, given)

    def fn(*args: torch.Tensor, keep: bool = False) -> Any:
        made = [arg.sin() if i in written else arg for i, arg in enumerate(args)]
        results = op(*made, **given)
        return results, [made[i] * 2 for i in written if keep]

    bytes_written = sum(args[i].numel() * 4 for i in written)
    copied = run(fn, args, place)[1].memory["copied_bytes_per_replay"]
    kept = run(lambda *args: fn(*args, keep=True), args, place)[1].memory["copied_bytes_per_replay"]
    if name == "add_rms_norm_v2":  # other loops compute its results
        assert copied == kept == 0
    else:
        assert kept == copied + bytes_written


@pytest.mark.feature("2.14")
@pytest.mark.parametrize("name", ROWS)
def test_the_old_value_is_kept_where_it_is_read(name: str) -> None:
    op, _, args, written, given = ROWS[name]
    given = on("npu", given)

    def fn(*args: torch.Tensor) -> Any:
        old = [args[i].clone() for i in written]
        op(*args, **given)
        return [x * 2 for x in old]

    run(fn, args, "npu")
