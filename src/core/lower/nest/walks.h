// SPDX-License-Identifier: Apache-2.0
// The loops over the elements of one row: a walk for each level of reductions. Internal to lower/.
#pragma once

#include <vector>

#include "lower/nest/values.h"

namespace npugraph::lower {

class NestWalks {
 public:
  // The arguments must outlive it.
  NestWalks(const NestPlan& plan, loop::Builder& builder, NestPlace& place, NestValues& values)
      : plan_(plan), builder_(builder), place_(place), values_(values) {}

  // Writes all walks over the row of `place`, or over its piece of a row.
  void write_row();
  // Writes one walk: loops over the dimensions of the row from `dim` on. Returns the results of the reductions over
  // the outermost loop.
  std::vector<loop::Value> walk_over(size_t dim, int level, const std::vector<int>& reductions);
  // Combines `values` over the enclosing loop. Returns the results of the reductions.
  std::vector<loop::Value> combined(const std::vector<int>& reductions, std::vector<loop::Value> values);

 private:
  void write_walk(int level);
  int64_t piece_of(int level) const;
  bool is_whole_piece() const;
  std::vector<loop::Value> walk_inner(int level, const std::vector<int>& reductions);
  std::vector<loop::Value> walk_run(const Expr& first, const Expr& length, int level,
                                    const std::vector<int>& reductions);

  const NestPlan& plan_;
  loop::Builder& builder_;
  NestPlace& place_;
  NestValues& values_;
};

}  // namespace npugraph::lower
