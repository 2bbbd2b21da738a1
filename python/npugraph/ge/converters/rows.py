# SPDX-License-Identifier: Apache-2.0
"""The table of converters that are one call of an operator. ``table.py`` says how a row is read."""

from __future__ import annotations

_POINTWISE = """\
aten._prelu_kernel.default: PRelu x=self weight=weight
aten.abs.default: Abs x=self
aten.acos.default: Acos x=self^
aten.acosh.default: Acosh x=self^
aten.addcdiv.default: Addcdiv input_data=self^ x1=tensor1^ x2=tensor2^ value=value^^
aten.addcmul.default: Addcmul input_data=self^ x1=tensor1^ x2=tensor2^ value=value^^
aten.asin.default: Asin x=self^
aten.asinh.default: Asinh x=self^
aten.atan.default: Atan x=self^
aten.atanh.default: Atanh x=self^
aten.bitwise_right_shift.Tensor: RightShift x=self^ y=other^
aten.ceil.default: Ceil x=self
aten.cos.default: Cos x=self^
aten.cosh.default: Cosh x=self^
aten.elu.default: Elu x=self alpha=alpha scale=scale input_scale=input_scale
aten.erf.default: Erf x=self^
aten.erfc.default: Erfc x=self^
aten.erfinv.default: Erfinv input_x=self^
aten.exp.default: Exp x=self^
aten.expm1.default: Expm1 x=self^
aten.floor.default: Floor x=self
aten.floor_divide.Scalar: FloorDiv x1=self^ x2=other^^
aten.floor_divide.default: FloorDiv x1=self^ x2=other^^
aten.fmod.Scalar: TruncateMod x1=self^ x2=other^^
aten.fmod.Tensor: TruncateMod x1=self^ x2=other^
aten.gelu.default: GeluV2 x=self approximate=approximate
aten.glu.default: GLU x=self dim=dim
aten.hardsigmoid.default: HardSigmoid input_x=self
aten.hardswish.default: HardSwish x=self
aten.hardtanh.default: ClipByValueV2 x=self^ clip_value_min=min_val^ clip_value_max=max_val^
aten.isnan.default: NotEqual x1=self x2=self
aten.leaky_relu.default: LeakyRelu x=self negative_slope=negative_slope
aten.lerp.Scalar: Lerp start=self^ end=end^ weight=weight^^
aten.lerp.Tensor: Lerp start=self^ end=end^ weight=weight^
aten.log.default: Log x=self^
aten.log10.default: Log x=self^ base=10.0
aten.log1p.default: Log1p x=self^
aten.log2.default: Log x=self^ base=2.0
aten.maximum.default: Maximum x1=self^ x2=other^
aten.minimum.default: Minimum x1=self^ x2=other^
aten.mish.default: Mish x=self
aten.neg.default: Neg x=self
aten.prelu.default: PRelu x=self weight=weight
aten.reciprocal.default: Reciprocal x=self^
aten.relu.default: Relu x=self
aten.remainder.Scalar: FloorMod x1=self^ x2=other^^
aten.remainder.Scalar_Tensor: FloorMod x1=self^^ x2=other^
aten.remainder.Tensor: FloorMod x1=self^ x2=other^
aten.round.default: Round x=self
aten.rsqrt.default: Rsqrt x=self^
aten.sgn.default: Sign x=self
aten.sigmoid.default: Sigmoid x=self^
aten.sign.default: Sign x=self
aten.silu.default: Swish x=self
aten.sin.default: Sin x=self^
aten.sinh.default: Sinh x=self^
aten.softplus.default: SoftplusV2 x=self beta=beta threshold=threshold
aten.sqrt.default: Sqrt x=self^
aten.square.default: Square x=self
aten.tan.default: Tan x=self^
aten.tanh.default: Tanh x=self^
aten.threshold.default: ThresholdV2 x=self^ threshold=threshold^^ value=value^^
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
aten.less.Tensor: Less x1=self~ x2=other~
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
aten.cummax.default: Cummax x=self dim=dim
aten.cumsum.default: Cumsum x=self^ axis=dim
aten.histc.default: Histogram x=self bins=bins min=min max=max
aten.logsumexp.default: ReduceLogSumExp x=self^ axes=dim keep_dims=keepdim
"""

_LAYOUT = """\
aten.alias.default: Identity x=self
aten.clone.default: TensorMove x=self
aten.detach.default: Identity x=self
aten.expand.default: BroadcastTo x=self shape=size -implicit
aten.flip.default: ReverseV2 x=self axis=dims
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
aten.zero.default: ZerosLike x=self
aten.zeros.default: Fill dims=size value=0^
aten.zeros_like.default: ZerosLike x=self^
"""

_PRODUCTS = """\
aten._int_mm.default: MatMulV2 x1=self x2=mat2
aten.bmm.default: BatchMatMul x1=self^ x2=mat2^
aten.mm.default: MatMul x1=self x2=mat2
"""

_GRADIENTS = """\
aten._prelu_kernel_backward.default: PReluGrad grads=grad_output features=self weights=weight
aten.elu_backward.default: EluGradV2 grads=grad_output activations=self_or_result alpha=alpha scale=scale \
input_scale=input_scale is_result=is_result
aten.embedding_dense_backward.default: EmbeddingDenseGrad grad=grad_output indices=indices num_weights=num_weights \
padding_idx=padding_idx scale_grad_by_freq=scale_grad_by_freq
aten.gelu_backward.default: GeluGradV2 dy=grad_output x=self approximate=approximate
aten.glu_backward.default: GLUGrad y_grad=grad_output x=self dim=dim
aten.hardsigmoid_backward.default: HardSigmoidGrad grads=grad_output input_x=self
aten.hardswish_backward.default: HardSwishGrad grad=grad_output x=self
aten.hardtanh_backward.default: HardtanhGrad result=self grad=grad_output min_val=min_val max_val=max_val
aten.leaky_relu_backward.default: LeakyReluGrad gradients=grad_output features=self negative_slope=negative_slope \
-self_is_result
aten.log_sigmoid_backward.default: LogSigmoidGrad grads=grad_output features=self -buffer
aten.sigmoid_backward.default: SigmoidGrad y=output dy=grad_output
aten.tanh_backward.default: TanhGrad y=output dy=grad_output
"""

_NUMBERS = """\
operator.add: Add x1=self^ x2=other^
operator.floordiv: FloorDiv x1=self^ x2=other^
operator.mod: FloorMod x1=self^ x2=other^
operator.mul: Mul x1=self^ x2=other^
operator.neg: Neg x=self^
operator.sub: Sub x1=self^ x2=other^
operator.truediv: Div x1=self^ x2=other^
torch._sym_log2: Log x=a^ base=2.0
torch._sym_sqrt: Sqrt x=a^
torch.sym_float: Cast x=self dst_type=meta_outputs.dtype
torch.sym_max: Maximum x1=self^ x2=other^
torch.sym_min: Minimum x1=self^ x2=other^
"""

# Operators on lists of tensors.
_FOREACH = """\
aten._foreach_add.List: ForeachAddList x1=self x2=other alpha=alpha^
aten._foreach_addcdiv.Scalar: ForeachAddcdivScalar x=self x1=tensor1 x2=tensor2 scalar=value^
aten._foreach_addcdiv.ScalarList: ForeachAddcdivScalarList x=self x1=tensor1 x2=tensor2 scalar=scalars^
aten._foreach_addcmul.Scalar: ForeachAddcmulScalar x1=self x2=tensor1 x3=tensor2 scalar=value^
aten._foreach_addcmul.ScalarList: ForeachAddcmulScalarList x1=self x2=tensor1 x3=tensor2 scalar=scalars^
aten._foreach_ceil.default: ForeachRoundOffNumber x=self roundMode=3
aten._foreach_div.List: ForeachDivList x1=self x2=other
aten._foreach_floor.default: ForeachRoundOffNumber x=self roundMode=2
aten._foreach_frac.default: ForeachRoundOffNumber x=self roundMode=7
aten._foreach_lerp.List: ForeachLerpList x1=self x2=tensors1 weights=weights
aten._foreach_lerp.Scalar: ForeachLerpScalar x1=self x2=tensors1 weight=weight^
aten._foreach_maximum.List: ForeachMaximumList x1=self x2=other
aten._foreach_minimum.List: ForeachMinimumList x1=self x2=other
aten._foreach_mul.List: ForeachMulList x1=self x2=other
aten._foreach_norm.Scalar: ForeachNorm x=self scalar=ord^
aten._foreach_pow.List: ForeachPowList x1=self x2=exponent
aten._foreach_pow.Scalar: ForeachPowScalar x=self scalar=exponent^
aten._foreach_pow.ScalarAndTensor: ForeachPowScalarAndTensor x=exponent scalar=self^
aten._foreach_pow.ScalarList: ForeachPowScalarList x=self scalar=exponent^
aten._foreach_round.default: ForeachRoundOffNumber x=self roundMode=1
aten._foreach_sub.List: ForeachSubList x1=self x2=other alpha=alpha^
aten._foreach_trunc.default: ForeachRoundOffNumber x=self roundMode=5
"""
_FOREACH_OF_ONE = (
    *("Abs", "ACos", "ASin", "ATan", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log", "Log10", "Log1p", "Log2"),
    *("Sigmoid", "Sin", "Sinh", "Tan", "Tanh"),
)
_FOREACH_OF_NUMBERS = ("Add", "Div", "Maximum", "Minimum", "Mul", "Sub")
_FOREACH += "".join(f"aten._foreach_{name.lower()}.default: Foreach{name} x=self\n" for name in _FOREACH_OF_ONE)
_FOREACH += "".join(
    f"aten._foreach_{name.lower()}.Scalar: Foreach{name}Scalar x=self scalar=scalar^\n"
    f"aten._foreach_{name.lower()}.ScalarList: Foreach{name}ScalarList x=self scalars=scalars^\n"
    for name in _FOREACH_OF_NUMBERS
)

_TABLES = (
    *(_POINTWISE, _ARITHMETIC, _COMPARISONS, _REDUCTIONS, _LAYOUT),
    *(_INDEXING, _CREATION, _PRODUCTS, _GRADIENTS, _NUMBERS, _FOREACH),
)
ROWS = tuple(row for table in _TABLES for row in table.splitlines())
