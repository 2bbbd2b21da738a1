# SPDX-License-Identifier: Apache-2.0
"""The steps that random programs are made of: Python source with slots.

A slot is ``{name}`` or ``{name:kind}``; the same name gives the same value. ``slots.py`` fills them:

- ``x``: a tensor of the kind ``any`` (the default), ``number``, ``float``, ``int``, ``bool``, ``f32``, ``plane`` (two
  or more dimensions), ``matrix`` (a plane of floats), ``batch`` (floats, three dimensions), ``tokens`` (floats, three
  or four dimensions), ``signal`` (as ``conv1d`` takes it, of 4 channels) or ``image`` (as ``conv2d``, of 3)
- ``y`` and ``z``: like ``x``, or ``broadcast`` (fits x), ``same`` (same sizes and dtype as x), ``into`` (may be written
  to x), ``row`` (as ``x[0]``), ``beside`` (concatenates with x), ``factor`` (``x @ y``), ``weights``
  (``F.linear(x, y)``), ``codes`` (of weights, integers), ``keys`` (to which the tokens x attend)
- ``c``: a bool tensor that broadcasts with x; ``i``: a tensor of integers
- ``d`` and ``e``: dimensions of x; ``k``: 0, 1 or 2; ``v``: a number; ``w``: a whole number; ``q``: a number that no
  type of 16 bits holds exactly; ``t``: a dtype
- ``n``: a size of x, as source; ``m`` and ``o``: sizes of any tensor; ``r``: how many dimensions x has
"""

from __future__ import annotations

import dataclasses
import enum


class Write(enum.Enum):
    """The memory that a step writes, and how its other operands may overlap that memory."""

    NONE = "writes nothing"
    ELEMENTWISE = "other operands are the very same view, or do not overlap it"
    SCATTERED = "other operands do not overlap it"
    METADATA = "changes sizes and strides of a tensor, for intermediates only"


@dataclasses.dataclass(frozen=True)
class Operator:
    """One kind of step. ``features`` are the rows of the coverage table that it belongs to."""

    template: str
    features: tuple[str, ...]
    write: Write = Write.NONE
    inexact: bool = False  # results may differ in rounding
    jumps: bool = False  # a small change of an operand can change the result much
    kinked: bool = False  # a small change of an operand can change the gradient much
    either_zero: bool = False  # where 0.0 and -0.0 are the extreme, torch returns one or the other by their places
    reads_bits: bool = False  # 0.0 and -0.0 give different results
    statement: bool = False  # has no result


def _pure(features: str, *templates: str, **properties: bool) -> list[Operator]:
    return [Operator(t, tuple(features.split(", ")), **properties) for t in templates]


def _write(features: str, *templates: str, how: Write = Write.ELEMENTWISE, inexact: bool = False) -> list[Operator]:
    return [
        Operator(t, tuple(features.split(", ")), write=how, inexact=inexact, statement="= " in t) for t in templates
    ]


VIEWS = [
    *_pure("view", "{x}.view(-1)", "{x}.view({x}.shape[0], -1)", "{x}.view(-1, {x}.shape[-1])", "{x}.view({x}.shape)"),
    *_pure("view", "{x}.view(1, -1, 1)", "{x}.view_as({x})", "{x}.detach()", "{x}.unflatten({d}, (-1, 1))"),
    *_pure("reshape", "{x}.reshape(-1)", "{x}.reshape({x}.shape[-1], -1)", "{x}.flatten(0, -1)"),
    *_pure("transpose", "{x}.transpose({d}, {e})", "{x:plane}.mT", "{x}.movedim({d}, {e})", "{x}.permute({d}, {e})"),
    *_pure("slice", "{x}[1:]", "{x}[:-1]", "{x}[..., 1:]", "{x}[:, :2]", "{x}[: {x}.shape[0] // 2]"),
    *_pure("slice", "{x}.narrow({d}, 0, 1)", "{x}.narrow({d}, 1, {x}.shape[{d}] - 1)", "{x}[2:1]"),
    *_pure("strided slice", "{x}[::2]", "{x}[..., 1::2]", "{x}[:, ::2]"),
    *_pure("select", "{x}[0]", "{x}[-1]", "{x}[..., 0]", "{x}.select({d}, {k})"),
    *_pure("expand", "{x}.expand(2, *[-1] * {r})", "{x}.unsqueeze(-1).expand(*[-1] * {r}, 3)"),
    *_pure("expand", "{x}.unsqueeze(0).expand({n}, *[-1] * {r})", "{x}.broadcast_to(2, 1, *[-1] * {r})"),
    *_pure("unsqueeze", "{x}.unsqueeze({d})", "{x}[None]", "{x}.squeeze({d})", "{x}.squeeze()"),
    *_pure("split", "{x}.chunk(2, {d})", "{x}.split(1, {d})", "{x}.split({x}.shape[{d}] - 1, {d})", "{x}.unbind({d})"),
    *_pure("diagonal", "{x}.diagonal()", "{x}.diagonal(1, {d}, {e})"),
    *_pure("overlapping view", "{x}.unfold({d}, 2, 1)"),
    *_pure("view of other dtype", "{x:f32}.view(torch.int32)", jumps=True, reads_bits=True),
]

POINTWISE = [
    *_pure("pointwise", "{x} + {y:broadcast}", "{x:number} - {y:broadcast_number}", "{x} * {y:broadcast}"),
    *_pure("pointwise", "{x:number} + {v}", "{x} * {w}", "{v} - {x:number}", "-{x:number}", "{x:float} / 2"),
    *_pure("pointwise", "{x:number}.abs()", "{x:number}.relu()", "{x:number}.clamp(-1, 2)", kinked=True),
    *_pure("pointwise", "torch.maximum({x}, {y:broadcast})", kinked=True, either_zero=True),
    *_pure("pointwise", "torch.add({x:number}, {y:broadcast_number}, alpha=2)", "{x:number}.square()"),
    *_pure("pointwise", "torch.addcmul({x:number}, {y:same}, {z:same}, value=2)", "{x:float}.lerp({y:same}, 0.5)"),
    *_pure(
        "pointwise", "{x:float}.sigmoid()", "{x:float}.tanh()", "{x:float}.sin()", "F.gelu({x:float})", inexact=True
    ),
    *_pure("pointwise", "{x:float}.softmax({d})", "F.layer_norm({x:float}, ({x}.shape[-1],))", inexact=True),
    *_pure("comparison", "{x} == {y:broadcast}", "{x:number} > {v}", "{x} <= {y:broadcast}", "~{x:bool}", jumps=True),
    *_pure("comparison", "{x:bool} & {y:broadcast}", "{x}.logical_not()", "{x:float}.isnan()", jumps=True),
    *_pure("where", "torch.where({c}, {x}, {y:broadcast})", "torch.where({c}, {x}, {w})", "{x}.masked_fill({c}, {w})"),
    *_pure("conversion", "{x}.to({t})", "{x}.float()", "{x}.type_as({y:any})", jumps=True),
    *_pure("symbolic scalar", "{x:number} * {n}", "{x:number} + {n} // 2", "torch.full_like({x}, {n})"),
]

# Numbers that are rounded to the type of a tensor, or not, give different bits. In 16 bits, eager rounds a product with
# alpha only in elements that fill no vector, so alpha is for f32.
NUMBERS = [
    *_pure("inexact number", "{x:float} + {q}", "{x:float} - {q}", "{q} - {x:float}", "{x:float} * {q}"),
    *_pure("inexact number", "{x:float} / {q}", "{x:float}.lerp({y:same}, {q})", "F.leaky_relu({x:float}, {q})"),
    *_pure("inexact number", "torch.add({x:f32}, {y:same}, alpha={q})", "torch.rsub({x:f32}, {y:same}, alpha={q})"),
    *_pure(
        "inexact number", "torch.addcmul({x:float}, {y:same}, {z:same}, value={q})", "{x:float} * torch.tensor({q})"
    ),
    *_pure("inexact number", "torch.where({c}, {x:float}, {q})", "torch.tensor({q}) - {x:float}"),
    *_pure("inexact number", "{x:float}.clamp(max={q})", "F.hardtanh({x:float}, -1.3, 0.7)", kinked=True),
    *_pure("inexact number", "{x:float} > {q}", "{x:float} == {q}", "F.threshold({x:float}, {q}, {q})", jumps=True),
    *_pure("inexact number", "F.hardshrink({x:float}, 0.3)", "F.softshrink({x:float}, 0.3)", jumps=True),
]

REDUCTIONS = [
    *_pure("reduction", "{x}.sum()", "{x}.sum({d})", "{x}.sum({d}, keepdim=True)", "{x:float}.mean({d})", inexact=True),
    *_pure("reduction", "{x:float}.var({d})", "{x:float}.logsumexp({d})", "{x:number}.cumsum({d})", inexact=True),
    *_pure("reduction", "{x}.amax({d})", "{x}.amin()", "{x:number}.max({d}).values", kinked=True, either_zero=True),
    *_pure("reduction", "{x}.any()", "{x}.all({d})", "{x}.count_nonzero()", "{x:number}.argmax()", jumps=True),
    *_pure("reduction", "{x:number}.sort({d}, stable=True)", jumps=True),
    *_pure("reduction", "{x:number}.max({d})", jumps=True, either_zero=True),
    *_pure("matmul", "{x:matrix} @ {y:same}.mT", "{x:matrix}.mT @ {y:same}", "{x:matrix} @ {y:matrix}", inexact=True),
    *_pure(
        "matmul", "F.linear({x:float}, {y:matrix})", "{x:matrix} @ {y:row}", "{x:batch}.bmm({y:same}.mT)", inexact=True
    ),
    *_pure("matmul", "torch.addmm({y:row}, {x:matrix} @ {x}.mT, {x})", inexact=True),
    # Such an eps keeps channels of nearly equal elements from growing. The memory format of images may hang on a size
    # that is 1, of which torch makes no guard.
    *_pure(
        "normalisation",
        "F.batch_norm({x:matrix}, None, None, training=True, eps=1.0)",
        "F.batch_norm({x:matrix}.mT, None, None, training=True, eps=1.0)",
        "torch.native_batch_norm({x:matrix}.movedim({d}, 1), None, None, None, None, True, 0.1, 1.0)[0].contiguous()",
        "F.batch_norm({x:signal}, torch.arange(4.0), torch.arange(1.0, 5.0), {y:row}[:, 0])",
        "F.group_norm({x:matrix}, 1, eps=1.0)",
        "F.rms_norm({x:matrix}, ({x}.shape[-1],), eps=1.0)",
        inexact=True,
    ),
]

LAYOUT = [
    *_pure("cat", "torch.cat([{x}, {y:same}], {d})", "torch.cat([{x}, {x}])", "torch.cat([{x}, {x}[1:], {x}[:0]])"),
    *_pure("stack", "torch.stack([{x}, {y:same}])", "torch.stack([{x}, {y:same}], {d})"),
    *_pure(
        "clone", "{x}.clone()", "{x}.clone(memory_format=torch.contiguous_format)", "torch.empty_like({x}).copy_({x})"
    ),
    *_pure("contiguous", "{x}.contiguous()", "{x:plane}.mT.contiguous()"),
    *_pure("dropout of nothing", "F.dropout({x:float}, 0.3, False)", "F.dropout({x:float}, 0.0)"),
    *_pure("rearrangement", "{x}.flip({d})", "{x}.roll(1, {d})", "{x}.repeat(2, *[1] * {r})", "{x:plane}.tril()"),
    *_pure("rearrangement of parts", "torch.cat([{x:plane}, {x}.tril()], -1)", "torch.cat([{x}, {x}.flip(-1)], -1)"),
    *_pure("rearrangement of parts", "torch.cat([{x:plane}, torch.cat([{x}.triu(), {x}.roll(1, {d})], -1)], -1)"),
    *_pure(
        "rearrangement of reduced rows",
        "{x:plane}.amax({d}, keepdim=True).tril() + {x}",
        "{x:plane}.amin({d}, keepdim=True).triu(1) * {x}",
        "{x:plane}.amax(-1, keepdim=True).flip(-1) * {x}",
        "{x:plane}.amax(-1, keepdim=True).roll(1, -1) + {x}",
        kinked=True,
        either_zero=True,
    ),
    *_pure("rearrangement", "F.pad({x}, (1, 0))", "{x}.repeat_interleave(2, {d})"),
    *_pure("constant", "torch.tensor([1, 2, 3])", "torch.tensor(2.0)", "{x:number} * torch.tensor([[1.5], [2.0]])"),
    *_pure("constant", "torch.tensor([True, False])", "torch.tensor([[1, 2], [3, 4]]).mT"),
    *_pure(
        "creation", "torch.zeros_like({x})", "torch.ones(({n}, 2))", "torch.arange({n})", "{x}.new_full((2, {n}), 2)"
    ),
]

INDEXING = [
    *_pure("gather", "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))", "{x}.take_along_dim({i} % 1, {d})"),
    *_pure(
        "gather", "{x}.index_select({d}, torch.tensor([1, 0, 1]))", "{x}[torch.tensor([0, 1, 0])]", "{x}[{i} % {n}]"
    ),
    *_pure("gather", "{x}[:, torch.tensor([1, 0])]", "{x}[torch.tensor([1, 0]), :1]"),
    *_pure(
        "index_copy",
        "{x}.index_copy(0, torch.tensor([1, 0]), {y:same}[:2])",
    ),
    *_pure("index_copy", "{x}.index_copy({d}, torch.arange({x}.shape[{d}]), {y:same})"),
    *_pure("index_add", "{x}.index_add(0, torch.tensor([0, 1, 0]), {y:same}[:3])", inexact=True),
    *_pure("index_put", "{x}.index_put((torch.tensor([1, 0]),), {y:same}[:2])"),
    *_pure("scatter", "{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64)[:1], {y:same})"),
    *_pure("scatter", "{x}.slice_scatter({y:same}[:1], 0, 1, 2)", "{x}.select_scatter({y:row}, 0, 1)"),
    *_pure("scatter", "{x}.scatter_add(0, torch.zeros_like({x}, dtype=torch.int64), {y:same})", inexact=True),
]

WRITES = [
    *_write(
        "in-place", "{x:number}.add_({v})", "{x}.mul_({w})", "{x:number}.neg_()", "{x:number}.relu_()", "{x}.zero_()"
    ),
    *_write("in-place", "{x:number}.add_({y:broadcast_number})", "{x:number}.sub_({y:broadcast_number}, alpha=2)"),
    *_write("in-place", "{x:float}.mul_({y:broadcast})", "{x}.fill_({w})", "{x:float}.clamp_(-1, 2)"),
    *_write("in-place", "{x:float}.sigmoid_()", "{x:float}.tanh_()", inexact=True),
    *_write("inexact number", "{x:float}.add_({q})", "{x:float}.sub_({q})", "{x:float}.mul_({q})"),
    *_write("inexact number", "{x:f32}.sub_({y:same}, alpha={q})", "{x:f32}.add_({y:same}, alpha={q})"),
    *_write("in-place", "{x}.masked_fill_({c}, {w})", "{x:number}.addcmul_({y:same}, {z:same})"),
    *_write("in-place", "{x:plane}.tril_()", "{x}.masked_scatter_({c}, {y:same})", how=Write.SCATTERED),
    *_write("in-place", "{x:float}.cumsum_({d})", inexact=True),
    *_write("in-place", "{x}.view(-1).mul_({w})", "{x:number}[0].add_({v})", "{x:number}.select({d}, -1).neg_()"),
    *_write("in-place", "{x:number}[1:].sub_({y:row})", "{x:plane}.mT.mul_({w})", "{x}.unsqueeze(0).fill_({w})"),
    *_write("copy_", "{x}[1:].copy_({y:row})", "{x}[::2].copy_({y:row})", "{x}[:2].copy_({y:same}[:2])"),
    *_write("copy_", "{x}.copy_({y:into})", "{x}.copy_({y:same})", "{x}.copy_({w} + {y:into})"),
    *_write(
        "assignment",
        "{x}[0] = {y:row}",
        "{x}[...] = {y:into}",
        "{x}[1:] = {w}",
        "{x}[..., ::2] = {w}",
        how=Write.SCATTERED,
    ),
    *_write("assignment", "{x}[:, -1] = {w}", "{x}[{c}] = {w}", "{x}[1:] += {w}", how=Write.SCATTERED),
    *_write("index_copy", "{x}.index_copy_(0, torch.tensor([1, 0]), {y:same}[:2])", how=Write.SCATTERED),
    *_write("index_copy", "{x}.index_copy_({d}, torch.tensor([0]), {y:same}.narrow({d}, 0, 1))", how=Write.SCATTERED),
    *_write("index_put", "{x}.index_put_((torch.tensor([1, 0]),), {y:same}[:2])", how=Write.SCATTERED),
    *_write("index_put", "{x}[torch.tensor([0, 1])] = {y:row}", how=Write.SCATTERED),
    *_write("index_add", "{x}.index_add_(0, torch.tensor([1, 0, 1]), {y:same}[:3])", how=Write.SCATTERED, inexact=True),
    *_write(
        "scatter", "{x}.scatter_({d}, torch.zeros_like({x}, dtype=torch.int64)[:1], {y:same})", how=Write.SCATTERED
    ),
    *_write(
        "scatter",
        "{x:number}.scatter_add_({d}, torch.zeros_like({x}, dtype=torch.int64), {y:same})",
        how=Write.SCATTERED,
        inexact=True,
    ),
    *_write("out=", "torch.add({y:same}, {v}, out={x:number})", "torch.mul({y:same}, {z:same}, out={x})"),
    *_write("matmul", "{x:matrix}.addmm_({y:same}, {y}.mT @ {y})", how=Write.SCATTERED, inexact=True),
    *_write(
        "change of metadata", "{x}.unsqueeze_({d})", "{x}.transpose_({d}, {e})", "{x}.squeeze_()", how=Write.METADATA
    ),
]

# Steps in which sizes of several tensors meet.
SIZES = [
    *_pure("slice to another size", "{x}[: {m}]", "{x}[-{m} :]", "{x}[{m} :]", "{x}[..., : {m}]", "{x}[..., -{m} :]"),
    *_pure("slice to another size", "{x}.narrow(0, 0, {m})", "{x}.narrow({d}, {x}.shape[{d}] - {m}, {m})"),
    *_pure("slice to another size", "{x}[: -{m}]", "{x}.split([{m}, {x}.shape[{d}] - {m}], {d})", "{x}[{m} - {o} :]"),
    *_pure("slice by a sum of sizes", "{x}[{m} : {m} + {o}]", "{x}[: {m} + 2]", "{x}[{m} + 1 :]", "{x}[{m} // 2 :]"),
    *_pure("slice by a sum of sizes", "{x}.narrow(0, {m} // 2, {o} // 2)", "{x}[: {m} + {o}]", "{x}[:: {m}]"),
    # A guard says that the size is 1, and not its expression.
    *_pure("row of a computed size", "{x}.narrow({d}, {x}.shape[{d}] // 2, ({m} + 2) // ({m} + 1))"),
    *_pure("broadcast of a row", "{x:number} * {y:single}", "{x:number} + {y:single}", "{x:float} - {y:single}"),
    *_pure("cat of other sizes", "torch.cat([{x}, {y:beside}])", "torch.cat([{y:beside}, {x}, {x}[1:]])"),
    *_pure("cat of other sizes", "torch.cat([{x:plane}, {x}.new_ones(({m}, {x}.shape[1]))])", "F.pad({x}, (0, {m}))"),
    *_pure("cat of other sizes", "torch.cat([{x}[: {m}], {y:beside}])", "torch.cat([{x}, {x}[: {m} + 1]])"),
    *_pure("index of another size", "{x}[torch.arange({m})]", "{x}[torch.arange({m}) // 2]", "{x}[{m} // 2]"),
    *_pure("index of another size", "{x}.index_select({d}, torch.arange({m}) % {x}.shape[{d}])"),
    *_pure("tensor of a sum of sizes", "torch.ones(({m} + {o}, {x}.shape[-1]))", "torch.arange({m} + {n})"),
    *_pure("tensor of a sum of sizes", "{x}.new_full(({m} + 1, 4), 2)", "{x}.expand({m}, *[-1] * {r})"),
]

PRODUCTS = [
    *_pure("product", "{x:matrix} @ {y:factor}", "F.linear({x:matrix}, {y:weights})", inexact=True),
    *_pure(
        "product",
        "F.linear({x:matrix}, {y:weights}, {y}[:, 0])",
        "torch.addmm({z:row}, {x:matrix}, {y:factor})",
        inexact=True,
    ),
    *_pure(
        "quantised product",
        "F.linear({x:matrix}, {y:codes}.to(torch.int8).to({x}.dtype)) * 0.25",
        "{x:matrix} @ {y:codes}.to(torch.int8).to({x}.dtype).mT",
        "F.linear({x:matrix}.float(), torch.ops.quantized_decomposed.dequantize_per_channel({y:codes}.to(torch.int8),"
        " torch.full(({y}.shape[0],), 0.5), torch.arange({y}.shape[0]) % 3, 0, -128, 127, torch.int8))",
        "torch.ops.aten._weight_int8pack_mm("
        "{x:matrix}.detach().float().flatten(0, -2), {y:codes}.to(torch.int8), torch.full(({y}.shape[0],), 0.5))",
        inexact=True,
    ),
    # Never of one column: with VNNI, eager then returns memory as it is, if the second factor is transposed.
    *_pure(
        "quantised product",
        "torch._int_mm(F.pad({x:matrix}.isnan().flatten(0, -2).to(torch.int8), (0, 2)),"
        " F.pad({y:codes}.to(torch.int8), (0, 2)).mT)",
        jumps=True,
    ),
    *_pure(
        "convolution",
        "F.conv1d({x:signal}, (torch.arange(24) % 5 - 2).reshape(2, 4, 3).to({x}.dtype))",
        "F.conv1d({x:signal}, (torch.arange(12) % 5 - 2).reshape(4, 1, 3).to({x}.dtype), padding=1, groups=4)",
        "F.conv2d({x:image}, (torch.arange(24) % 5 - 2).reshape(2, 3, 2, 2).to({x}.dtype))",
        "F.conv2d({x:image}, (torch.arange(36) % 5 - 2).reshape(3, 3, 2, 2).to({x}.dtype), stride=2, padding=1)",
        inexact=True,
    ),
    *_pure(
        "attention",
        "F.scaled_dot_product_attention({x:tokens}, {y:keys}, {y})",
        "F.scaled_dot_product_attention({x:tokens}, {y:keys}, {y}, is_causal=True)",
        "({x:tokens} @ {y:keys}.mT).softmax(-1) @ {y}",
        inexact=True,
    ),
]

# Operators by their first feature. Operators that write have groups of their own. A step draws a group and then an
# operator of it, so that a feature with few operators is not rare.
GROUPS: dict[str, list[Operator]] = {}
for _operator in [*POINTWISE, *NUMBERS, *WRITES, *VIEWS, *LAYOUT, *REDUCTIONS, *INDEXING, *SIZES, *PRODUCTS]:
    GROUPS.setdefault(_operator.features[0] + (" write" if _operator.write is not Write.NONE else ""), []).append(
        _operator
    )
