# SPDX-License-Identifier: Apache-2.0
"""The rules of the operator table give the same result types as FakeTensor, for constant and for symbolic sizes."""

from __future__ import annotations

import pytest

from tests.python.op_samples import OPERATORS
from tests.python.operator_types import RIGHT, Verdicts, sampled, table_names, written

PARTS = 36

# Functional rows of torch's operators that no call over fake tensors reaches, by reason.
# tests/unit/core/ops/infer_test.cc has those with a rule of their own.
UNCALLED = {
    "torch takes it apart before the call is seen": """
        __and__.Scalar __and__.Tensor __lshift__.Scalar __lshift__.Tensor __or__.Scalar __or__.Tensor __rshift__.Scalar
        __rshift__.Tensor __xor__.Scalar __xor__.Tensor _fused_rms_norm argsort argsort.stable chunk contiguous
        expand_as imag isclose isfinite item kl_div log_sigmoid log_softmax.int mT movedim.int movedim.intlist narrow
        native_batch_norm numpy_T one_hot real relu6 repeat_interleave.self_Tensor repeat_interleave.self_int reshape
        selu softmax.int split.sizes square swapaxes swapdims view_as where.Scalar where.ScalarOther where.ScalarSelf
    """,
    "the importer puts another operator in its place": "_conj _neg_view resolve_conj resolve_neg conj_physical",
    "the importer drops it": "_assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size",
    "FakeTensor does not run it": """
        _ctc_loss equal is_nonzero linalg_lstsq random.from slice_inverse unique_dim_consecutive
    """,
    "its samples are refused under FakeTensor": "hardshrink softshrink",
}
# Rows of operators that are not in ATen. They need torch_npu, or several processes.
OF_OTHERS = ("npu.", "npugraph.receive", "npugraph.send", "npugraph.transfer", "npugraph_ex.")
# Rows whose rule agrees with eager and not with FakeTensor.
AS_IN_EAGER = {"aten._embedding_bag_forward_only"}  # sizes of bags with include_last_offset


def complaints(verdicts: Verdicts) -> str:
    return "\n".join(
        f"{name}: {verdict}"
        for (name, kind), verdict in verdicts.examples.items()
        if kind not in RIGHT and name not in AS_IN_EAGER
    )


def test_some_calls_agree_with_fake_tensors() -> None:
    verdicts = Verdicts()
    rows = set(table_names())
    written(rows, verdicts, every=PARTS)
    sampled(sorted(OPERATORS)[::PARTS], rows, 1, verdicts)
    assert len(verdicts.counts) > 100
    assert not complaints(verdicts)


@pytest.mark.long
def test_every_row_agrees_with_fake_tensors() -> None:
    verdicts = Verdicts()
    rows = set(table_names())
    written(rows, verdicts)
    sampled(sorted(OPERATORS), rows, 8, verdicts)
    assert not complaints(verdicts)
    agreeing = {name for name, counts in verdicts.counts.items() if counts["agrees"]}
    uncalled = {name for name in table_names(functional=True) if not name.startswith(OF_OTHERS)} - agreeing
    assert uncalled == {f"aten.{name}" for names in UNCALLED.values() for name in names.split()}
