// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/bridge_test_util.h"
#include "base/error.h"

namespace npugraph::bridge {
namespace {

// Converts `attr` to an argument `name` of an operator.
c10::IValue convert(const std::string& op, const std::string& name, const Attr& attr) {
  const auto handle = find_operator(op);
  const c10::FunctionSchema& schema = handle->schema();
  const auto index = schema.argumentIndexWithName(name);
  const ArgumentSource source{[](TensorRef ref) { return at::full({1}, ref.id); },
                              [](const Expr&) { return Scalar::of_int(42); }};
  return to_ivalue(attr, schema.arguments()[*index], source);
}

TEST(Convert, EveryElementTypeRoundTrips) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(from_torch(to_torch(dtype)), dtype);
    EXPECT_EQ(static_cast<int64_t>(c10::elementSize(to_torch(dtype))), size_of(dtype)) << name_of(dtype);
  }
  EXPECT_EQ(from_torch(at::kQInt8), std::nullopt);
}

TEST(Convert, LayoutsFormatsAndDevicesRoundTrip) {
  for (const Layout layout : {Layout::kStrided, Layout::kSparseCsr, Layout::kJagged})
    EXPECT_EQ(from_torch(to_torch(layout)), layout);
  EXPECT_EQ(from_torch(to_torch(MemoryFormat::kChannelsLast)), MemoryFormat::kChannelsLast);
  EXPECT_EQ(from_torch(to_torch(Device{"cpu", 0})), (Device{"cpu", 0}));
  EXPECT_EQ(from_torch(to_torch(Device{"cpu", -1})), (Device{"cpu", -1}));
}

TEST(Convert, ArgumentsFollowTheSchema) {
  EXPECT_EQ(convert("aten.add.Tensor", "self", TensorRef{3}).toTensor().item<int64_t>(), 3);
  EXPECT_EQ(convert("aten.add.Tensor", "alpha", Expr::constant(Scalar::of_float(0.5))).toScalar().toDouble(), 0.5);
  EXPECT_EQ(convert("aten.add.Tensor", "alpha", Expr::symbol("s0")).toScalar().toLong(), 42);
  EXPECT_EQ(convert("aten.add.Tensor", "alpha", std::complex<double>(1, 2)).toScalar().toComplexDouble(),
            c10::complex<double>(1, 2));
  EXPECT_EQ(convert("aten.sum.dim_IntList", "dim", std::vector<Expr>{0, -1}).toIntVector(),
            (std::vector<int64_t>{0, -1}));
  EXPECT_TRUE(convert("aten.sum.dim_IntList", "dim", None{}).isNone());
  EXPECT_EQ(convert("aten.sum.dim_IntList", "dtype", DType::kF64).toScalarType(), at::kDouble);
  EXPECT_EQ(convert("aten.sum.dim_IntList", "keepdim", Expr::constant(Scalar::of_bool(true))).toBool(), true);
  EXPECT_EQ(convert("aten.view", "size", std::vector<Expr>{Expr::symbol("s0"), 2}).toIntVector(),
            (std::vector<int64_t>{42, 2}));
  EXPECT_EQ(convert("aten.gelu", "approximate", std::string("tanh")).toStringRef(), "tanh");
  EXPECT_EQ(convert("aten.max_pool2d", "kernel_size", Expr(3)).toIntVector(), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(convert("aten.cat", "tensors", std::vector<TensorRef>{{1}, {2}}).toTensorVector().size(), 2u);
  EXPECT_EQ(convert("aten.cat", "tensors", std::vector<Expr>{}).toTensorVector().size(), 0u);
  EXPECT_EQ(convert("aten.clone", "memory_format", MemoryFormat::kChannelsLast).toMemoryFormat(),
            at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(convert("aten.zeros", "device", Device{"cpu", -1}).toDevice(), at::kCPU);
  EXPECT_EQ(convert("aten.upsample_nearest1d.vec", "scale_factors", std::vector<Expr>{2}).toDoubleVector(),
            std::vector<double>{2.0});
}

TEST(Convert, NumbersForTensorsAreWrapped) {
  const at::Tensor number = convert("aten.add.Tensor", "other", Expr::constant(Scalar::of_float(2))).toTensor();
  EXPECT_TRUE(number.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ(number.scalar_type(), at::kDouble);
  EXPECT_EQ((at::ones({1}, at::kHalf) + number).scalar_type(), at::kHalf);
}

TEST(Convert, MisfitsAreRefusedWithTheArgument) {
  try {
    convert("aten.add.Tensor", "alpha", std::string("one"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "argument alpha takes Scalar and was given something else");
  }
  EXPECT_THROW(convert("aten.sum.dim_IntList", "dim", std::vector<TensorRef>{{1}}), UserError);
}

TEST(Convert, ConstantsShareTheTensor) {
  const at::Tensor tensor = at::ones({2, 3}).t();
  const ir::ConstantData constant = constant_of(tensor);
  EXPECT_EQ(constant.data, tensor.data_ptr());
  EXPECT_EQ(constant.bytes, 24);
  EXPECT_EQ(constant.owner.get(), tensor.unsafeGetTensorImpl());
  const ir::ConstantData opaque = constant_of(tensor.to_sparse());
  EXPECT_EQ(opaque.data, nullptr);
  EXPECT_NE(opaque.owner.get(), nullptr);
}

}  // namespace
}  // namespace npugraph::bridge
