# SPDX-License-Identifier: Apache-2.0
"""The table of converters that are one call of an operator. ``table.py`` says how a row is read."""

from __future__ import annotations

_POINTWISE = """\
aten.abs.default: Abs x=self
aten.ceil.default: Ceil x=self
aten.cos.default: Cos x=self^
aten.erf.default: Erf x=self^
aten.exp.default: Exp x=self^
aten.floor.default: Floor x=self
aten.floor_divide.default: FloorDiv x1=self^ x2=other^^
aten.gelu.default: GeluV2 x=self approximate=approximate
aten.hardtanh.default: ClipByValueV2 x=self^ clip_value_min=min_val^ clip_value_max=max_val^
aten.isnan.default: NotEqual x1=self x2=self
aten.log.default: Log x=self^
aten.log10.default: Log x=self^ base=10.0
aten.log1p.default: Log1p x=self^
aten.log2.default: Log x=self^ base=2.0
aten.maximum.default: Maximum x1=self^ x2=other^
aten.minimum.default: Minimum x1=self^ x2=other^
aten.neg.default: Neg x=self
aten.reciprocal.default: Reciprocal x=self^
aten.relu.default: Relu x=self
aten.remainder.Scalar: FloorMod x1=self^ x2=other^^
aten.remainder.Scalar_Tensor: FloorMod x1=self^^ x2=other^
aten.remainder.Tensor: FloorMod x1=self^ x2=other^
aten.rsqrt.default: Rsqrt x=self^
aten.sigmoid.default: Sigmoid x=self^
aten.silu.default: Swish x=self
aten.sin.default: Sin x=self^
aten.softplus.default: SoftplusV2 x=self beta=beta threshold=threshold
aten.sqrt.default: Sqrt x=self^
aten.square.default: Square x=self
aten.tanh.default: Tanh x=self^
aten.trunc.default: Trunc input_x=self
aten.where.Scalar: SelectV2 condition=condition then=self^ else=other^
aten.where.ScalarOther: SelectV2 condition=condition then=self^ else=other^
aten.where.ScalarSelf: SelectV2 condition=condition then=self^ else=other^
aten.where.self: SelectV2 condition=condition then=self^ else=other^
prims.maximum.default: Maximum x1=self^ x2=other^
prims.minimum.default: Minimum x1=self^ x2=other^
"""

_ARITHMETIC = """\
aten.div.Scalar: RealDiv x1=self^ x2=other^^
aten.div.Tensor: RealDiv x1=self^ x2=other^^
aten.true_divide.Tensor: RealDiv x1=self^ x2=other^^
aten.mul.Scalar: Mul x1=self^ x2=other^^
aten.mul.Tensor: Mul x1=self^ x2=other^^
aten.pow.Scalar: Pow x1=self^^ x2=exponent^
aten.pow.Tensor_Scalar: Pow x1=self^ x2=exponent^^
aten.pow.Tensor_Tensor: Pow x1=self^ x2=exponent^
prims.add.default: Add x1=self^ x2=other^
prims.mul.default: Mul x1=self^ x2=other^
"""

_COMPARISONS = """\
aten.eq.Scalar: Equal x1=self~ x2=other~
aten.eq.Tensor: Equal x1=self~ x2=other~
aten.ge.Scalar: GreaterEqual x1=self~ x2=other~
aten.ge.Tensor: GreaterEqual x1=self~ x2=other~
aten.gt.Scalar: Greater x1=self~ x2=other~
aten.gt.Tensor: Greater x1=self~ x2=other~
aten.le.Scalar: LessEqual x1=self~ x2=other~
aten.le.Tensor: LessEqual x1=self~ x2=other~
aten.logical_and.default: LogicalAnd x1=self^ x2=other^
aten.logical_not.default: LogicalNot x=self^
aten.logical_or.default: LogicalOr x1=self^ x2=other^
aten.logical_xor.default: NotEqual x1=self^ x2=other^
aten.lt.Scalar: Less x1=self~ x2=other~
aten.lt.Tensor: Less x1=self~ x2=other~
aten.ne.Scalar: NotEqual x1=self~ x2=other~
aten.ne.Tensor: NotEqual x1=self~ x2=other~
prims.le.default: LessEqual x1=self~ x2=other~
prims.lt.default: Less x1=self~ x2=other~
"""

_REDUCTIONS = """\
aten._log_softmax.default: LogSoftmaxV2 logits=self^ axes=[dim] -half_to_float
aten._softmax.default: SoftmaxV2 x=self axes=[dim] half_to_float=half_to_float
aten.all.dim: ReduceAll x=self^ axes=[dim] keep_dims=keepdim
aten.any.dim: ReduceAny x=self^ axes=[dim] keep_dims=keepdim
aten.cumsum.default: Cumsum x=self^ axis=dim
"""

_LAYOUT = """\
aten.alias.default: Identity x=self
aten.clone.default: TensorMove x=self
aten.detach.default: Identity x=self
aten.expand.default: BroadcastTo x=self shape=size -implicit
aten.lift.default: Identity x=self
aten.lift_fresh_copy.default: TensorMove x=self
aten.repeat.default: Tile x=self multiples=repeats
aten.tril.default: Tril x=self diagonal=diagonal
aten.triu.default: Triu x=self diagonal=diagonal
aten.unsqueeze.default: Unsqueeze x=self axes=[dim]
prims.convert_element_type.default: Cast x=a dst_type=meta_outputs.dtype
"""

_INDEXING = """\
aten.embedding.default: GatherV2 x=weight indices=indices axis=[0] -padding_idx -scale_grad_by_freq -sparse
aten.gather.default: GatherElements x=self index=index dim=dim -sparse_grad
"""

_CREATION = """\
aten.empty.memory_format: Fill dims=size value=0^
aten.full.default: Fill dims=size value=fill_value^
aten.new_empty.default: Fill dims=size value=0^ -self
aten.new_full.default: Fill dims=size value=fill_value^ -self
aten.new_ones.default: Fill dims=size value=1^ -self
aten.new_zeros.default: Fill dims=size value=0^ -self
aten.ones.default: Fill dims=size value=1^
aten.ones_like.default: OnesLike x=self^
aten.zeros.default: Fill dims=size value=0^
aten.zeros_like.default: ZerosLike x=self^
"""

_PRODUCTS = """\
aten.bmm.default: BatchMatMul x1=self^ x2=mat2^
aten.mm.default: MatMul x1=self x2=mat2
"""

_NUMBERS = """\
operator.add: Add x1=self^ x2=other^
operator.floordiv: FloorDiv x1=self^ x2=other^
operator.mod: FloorMod x1=self^ x2=other^
operator.mul: Mul x1=self^ x2=other^
operator.neg: Neg x=self^
operator.sub: Sub x1=self^ x2=other^
operator.truediv: Div x1=self^ x2=other^
torch._sym_sqrt: Sqrt x=a^
torch.sym_float: Cast x=self dst_type=meta_outputs.dtype
torch.sym_max: Maximum x1=self^ x2=other^
torch.sym_min: Minimum x1=self^ x2=other^
"""

_TABLES = (
    *(_POINTWISE, _ARITHMETIC, _COMPARISONS, _REDUCTIONS, _LAYOUT),
    *(_INDEXING, _CREATION, _PRODUCTS, _NUMBERS),
)
ROWS = tuple(row for table in _TABLES for row in table.splitlines())
