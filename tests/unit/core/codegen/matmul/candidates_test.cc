// SPDX-License-Identifier: Apache-2.0
// The ways to cut products and to copy the bodies of loops: which candidates there are, and which one a given processor
// gets.
#include <set>

#include "codegen/kernel/body.h"
#include "codegen/matmul/matmul_testing.h"
#include "codegen/matmul/plan.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

target::Target processor(int64_t l2_bytes) {
  return {.level = "x86-64-v4",
          .vector_bits = 512,
          .vector_registers = 32,
          .fma = true,
          .f16c = true,
          .masks = true,
          .bf16_dot = true,
          .l1_bytes = 48 << 10,
          .l2_bytes = l2_bytes,
          .l3_bytes = 32 << 20};
}

target::Target with_amx(target::Target target) {
  target.level = "x86-64-v4-amx";
  target.amx = true;
  return target;
}

struct Sizes2 {
  int64_t m, n, k;
  bool b_is_nk;
};

MatmulPlan product(const Sizes2& x, DType dtype = DType::kF32) {
  MatmulPlan plan;
  plan.m = x.m;
  plan.n = x.n;
  plan.k = x.k;
  const int64_t size = size_of(dtype);
  plan.a = {x.k * size, size, {}, dtype};
  plan.b = x.b_is_nk ? MatrixPlace{x.k * size, size, {}, dtype} : MatrixPlace{size, x.n * size, {}, dtype};
  plan.c = {x.n * size, size, {}, dtype};
  return plan;
}

constexpr Sizes2 kProducts[] = {{2, 192, 576, true},    {9, 768, 3072, true},  {33, 3072, 768, true},
                                {512, 768, 5000, true}, {8, 2304, 768, false}, {128, 768, 5000, false},
                                {700, 100, 64, false}};

void expect_to_fit(const MatmulPlan& plan) {
  SCOPED_TRACE(str(plan.blocks()));
  EXPECT_LE(plan.staged_row_bytes(plan.block_steps) * plan.shape.rows, kStagedBytes);
  EXPECT_EQ(plan.block_rows % (plan.form == Form::kPackA ? plan.shape.columns() : plan.shape.rows), 0);
  if (plan.form == Form::kPackA) {
    EXPECT_LE(plan.block_rows * plan.block_columns, kMostSums);
    EXPECT_LE(plan.block_columns, kMostTileColumns);
    EXPECT_GT(plan.tile_rows, 0);
  } else {
    EXPECT_LE(plan.block_steps, kMostPanelSteps);
    EXPECT_LE(plan.block_rows, kMostTiles * plan.shape.rows);
    EXPECT_LE(plan.block_rows, kMostRowsOfTiles);
  }
}

TEST(MatmulCandidates, FitTheStacksOfThoseWhoRunThem) {
  for (const int64_t l2_bytes : {int64_t{256} << 10, int64_t{1} << 20, int64_t{2} << 20, int64_t{16} << 20}) {
    for (const target::Target& target : {processor(l2_bytes), with_amx(processor(l2_bytes))}) {
      for (const Sizes2& x : kProducts) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          for (const MatmulPlan& plan : candidates_of(product(x, dtype), target)) {
            if (plan.has_tiles()) expect_to_fit(plan);
          }
        }
      }
    }
  }
}

TEST(MatmulCandidates, AreTilesOfAmxForHalfPrecisionAlone) {
  const target::Target target = with_amx(processor(2 << 20));
  for (const bool b_is_nk : {true, false}) {
    for (const MatmulPlan& plan : candidates_of(product({128, 768, 768, b_is_nk}, DType::kBF16), target))
      EXPECT_TRUE(plan.shape.amx) << str(plan.blocks());
    for (const MatmulPlan& plan : candidates_of(product({128, 768, 768, b_is_nk}), target))
      EXPECT_FALSE(plan.shape.amx) << str(plan.blocks());
  }
}

// Tiles of AMX read the weights as fast as matrix-vector products, which take longer for each further row.
TEST(MatmulPlan, LeavesOneRowToMatrixVectorProductsOnAmx) {
  for (const auto& [m, form] : {std::pair{1, Form::kRowsMatvec}, std::pair{2, Form::kPackA}, {8, Form::kPackA}}) {
    MatmulPlan plan = product({m, 4096, 4096, true}, DType::kBF16);
    ASSERT_TRUE(complete(plan, with_amx(processor(2 << 20)), {}));
    EXPECT_EQ(plan.form, form) << m;
  }
}

// Panels that are multiplied with the same rows of weights share the prefetching of these rows, so that each row is
// fetched once. Rows are copied only if they would evict each other from the L1 cache.
TEST(MatmulCandidates, OfAmxFetchEachRowOnce) {
  const target::Target target = with_amx(processor(2 << 20));
  for (const int64_t m : {32, 64, 128, 197, 512, 1500}) {
    for (const int64_t k : {768, 2048}) {
      for (const MatmulPlan& plan : candidates_of(product({m, 3072, k, true}, DType::kBF16), target)) {
        if (plan.form != Form::kPackA) continue;
        const int64_t panels = plan.block_rows / plan.shape.columns();
        EXPECT_GE(panels * plan.shape.fetched_rows, plan.shape.rows) << m << " " << str(plan.blocks());
        EXPECT_LT(panels * plan.shape.fetched_rows, 2 * plan.shape.rows) << m << " " << str(plan.blocks());
        EXPECT_EQ(plan.stage_b, k == 2048 && plan.panels() > 1) << m << " " << k;
        EXPECT_EQ(plan.shape.passing == Passing::kPanel, plan.panels() > kFewPanels) << m;
      }
    }
  }
}

// Bytes are widened once, for many tiles, rather than taken apart by each of them.
TEST(MatmulCandidates, WidenIntegersWhereNoInstructionMultipliesQuads) {
  target::Target with_quads = processor(1 << 20);
  with_quads.int8_dot = true;
  for (const auto& [target, kind] : {std::pair{processor(1 << 20), TileKind::kI16Pairs},
                                     {with_quads, TileKind::kI8Quads},
                                     {with_amx(processor(1 << 20)), TileKind::kI8Quads}}) {
    for (const MatmulPlan& plan : candidates_of(product({32, 768, 768, true}, DType::kI8), target)) {
      EXPECT_EQ(plan.kind, kind) << str(plan.blocks());
      expect_to_fit(plan);
    }
    for (const MatmulPlan& plan : candidates_of(product({1, 768, 768, true}, DType::kI8), target))
      EXPECT_EQ(plan.kind, TileKind::kI8Quads) << str(plan.blocks());
  }
}

TEST(MatmulCandidates, Differ) {
  for (const Sizes2& x : kProducts) {
    std::set<std::string> seen;
    for (const MatmulPlan& plan : candidates_of(product(x), processor(1 << 20)))
      EXPECT_TRUE(seen.insert(str(plan.blocks())).second) << str(plan.blocks());
    EXPECT_GT(seen.size(), 1u);
  }
}

TEST(MatmulCandidates, OfOneRowAreOneMatrixVectorProduct) {
  for (const bool b_is_nk : {true, false}) {
    const auto plans = candidates_of(product({1, 768, 768, b_is_nk}), processor(1 << 20));
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_FALSE(plans.front().has_tiles());
  }
}

TEST(MatmulPlan, TakesTheCheapestCandidate) {
  const target::Target target = processor(1 << 20);
  for (const Sizes2& x : kProducts) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      MatmulPlan plan = product(x, dtype);
      ASSERT_TRUE(complete(plan, target, {}));
      for (const MatmulPlan& other : candidates_of(product(x, dtype), target))
        EXPECT_LE(0.97 * cost_of(plan, target), cost_of(other, target)) << str(other.blocks());
    }
  }
}

TEST(MatmulPlan, AddsSumsInTheSameOrderWithAnyEpilogue) {
  const target::Target target = processor(1 << 20);
  for (int64_t m = 1; m <= 40; ++m) {
    for (const int64_t n : {48, 512, 4096}) {
      MatmulPlan alone = product({m, n, 768, true});
      MatmulPlan with_epilogue = alone;
      with_epilogue.end_buffer += 3;
      ASSERT_TRUE(complete(alone, target, {}) && complete(with_epilogue, target, {}));
      EXPECT_EQ(with_epilogue.form, alone.form) << m << " rows";
      EXPECT_EQ(with_epilogue.tile_rows, alone.tile_rows) << m << " rows";
    }
  }
}

TEST(MatmulPlan, CopiesRowsThatEvictEachOtherFromTheCache) {
  const auto copies = [](const Sizes2& x, int64_t l1_bytes) {
    target::Target target = processor(1 << 20);
    target.l1_bytes = l1_bytes;
    MatmulPlan plan = product(x);
    EXPECT_TRUE(complete(plan, target, {}));
    return x.b_is_nk ? plan.stage_b : plan.dense_a;
  };
  for (const bool b_is_nk : {true, false}) {
    EXPECT_TRUE(copies({128, 768, 3072, b_is_nk}, 32 << 10));
    EXPECT_FALSE(copies({128, 768, 3072, b_is_nk}, 48 << 10)) << "each row has a place";
    EXPECT_FALSE(copies({128, 768, 768, b_is_nk}, 32 << 10)) << "rows have places of their own";
    EXPECT_FALSE(copies({16, 48, 3072, b_is_nk}, 32 << 10)) << "they are read once";
  }
}

TEST(MatmulPlan, GivesBothThreadsWork) {
  MatmulPlan plan = product({64, 192, 576, true});
  ASSERT_TRUE(complete(plan, processor(1 << 20), {}));
  EXPECT_GE(plan.items(), 8);
}

TEST(MatmulPlan, RefusesBlocksThatAreNoCandidate) {
  MatmulPlan plan = product({64, 192, 576, true});
  EXPECT_FALSE(complete(plan, processor(1 << 20), MatmulBlocks{.form = Form::kPackA, .block_rows = 1000}));
}

// Runs all blocks that a caller can choose.
TEST(MatmulBlocks, ComputeTheSame) {
  const target::Target& target = target::host_target();
  for (const auto& [m, n, k, b_is_nk] :
       {Sizes2{5, 50, 70, true}, {37, 100, 2100, true}, {7, 50, 70, false}, {60, 50, 1100, false}}) {
    const Tensor a(DType::kF32, {m, k}, {k, 1}), c(DType::kF32, {m, n}, {n, 1});
    const Sizes of_b = b_is_nk ? Sizes{n, k} : Sizes{k, n};
    Tensor b(DType::kF32, of_b, {of_b[1], 1});
    const_cast<Tensor&>(a).fill(1);
    b.fill(2);
    MatmulSpec spec{.b_is_nk = b_is_nk, .epilogue = {}};
    std::vector<ng_buffer> buffers = {a.buffer(), b.buffer(), c.buffer()};
    const ng_call call{.buffers = buffers.data(), .num_buffers = 3, .abi_version = NG_TASK_ABI_VERSION};
    const std::vector<MatmulBlocks> blocks = matmul_blocks(spec, target, call);
    ASSERT_GT(blocks.size(), 1u);
    for (const MatmulBlocks& wanted : blocks) {
      spec.blocks = wanted;
      const_cast<Tensor&>(c).poison();
      run_matmul_task(spec, target, {&a, &b, &c}, 2);
      double exact = 0;
      for (int64_t i = 0; i < k; ++i)
        exact += a.value({m - 1, i}) * (b_is_nk ? b.value({n - 1, i}) : b.value({i, n - 1}));
      EXPECT_NEAR(c.value({m - 1, n - 1}), exact, 1e-4) << str(wanted);
    }
  }
}

TEST(VectorCopies, FitTheLoop) {
  EXPECT_EQ(copy_candidates({.statements = 3, .lanes = 16, .extent = {}}), (std::vector{1, 2, 4}));
  EXPECT_EQ(copy_candidates({.statements = 3, .lanes = 16, .extent = 40}), (std::vector{1, 2}));
  EXPECT_EQ(copy_candidates({.statements = 3, .lanes = 16, .extent = 0}), (std::vector{1}));
}

TEST(VectorCopies, AreManyOfSmallBodiesAndFewOfLargeOnes) {
  const target::Target target = processor(1 << 20);
  EXPECT_EQ(choose_copies({.statements = 3, .lanes = 16, .extent = {}}, target), 4);
  EXPECT_EQ(choose_copies({.statements = 8, .lanes = 16, .extent = {}}, target), 2);
  EXPECT_EQ(choose_copies({.statements = 40, .lanes = 16, .extent = {}}, target), 1);
}

// 48 elements are three whole vectors, so a body with two copies would leave one vector over.
TEST(VectorCopies, LeaveFewVectorsOver) {
  const target::Target target = processor(1 << 20);
  EXPECT_EQ(choose_copies({.statements = 8, .lanes = 16, .extent = 48}, target), 1);
  EXPECT_EQ(choose_copies({.statements = 8, .lanes = 16, .extent = 64}, target), 2);
}

}  // namespace
}  // namespace npugraph::codegen
