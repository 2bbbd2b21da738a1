// SPDX-License-Identifier: Apache-2.0
// The functions behind emit_math(), by the file that emits them.
#pragma once

#include "codegen/math/value.h"

namespace npugraph::codegen {

// exp.cc: f32 and f64, except exp2, erf and erfc, which are f32 only.
Real emit_exp(Real x);
Real emit_exp2(Real x);
Real emit_exp2_to_one(Real x, std::span<const double> tail);
Real emit_expm1(Real x);
Real emit_sigmoid(Real x);
Real emit_tanh(Real x);
Real emit_sinh(Real x);
Real emit_cosh(Real x);
Real emit_erf(Real x);
Real emit_erfc(Real x);

// log.cc: f32; log f64 too.
Real emit_log(Real x);
Real emit_log2(Real x);
Real emit_log10(Real x);
Real emit_log1p(Real x);
Real emit_pow(Real x, Real y);
Real emit_fmod(Real x, Real y);

// trig.cc: f32.
Real emit_sin(Real x);
Real emit_cos(Real x);
Real emit_tan(Real x);
Real emit_asin(Real x);
Real emit_acos(Real x);
Real emit_atan(Real x);
Real emit_atan2(Real y, Real x);

// lanes.cc: `fast`, with the results of a function of libm in the lanes of `slow`. `name` is the name of its f64 form.
Real call_lanes(std::string_view name, Mask slow, std::span<const Real> args, Real fast);
// The results of the function of libm in all lanes.
Real call_lanes(std::string_view name, std::span<const Real> args);

}  // namespace npugraph::codegen
