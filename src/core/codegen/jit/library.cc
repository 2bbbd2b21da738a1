// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/library.h"

#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace npugraph::codegen {
namespace {

using Table = std::unordered_map<std::string_view, void*>;

template <typename Float>
using Unary = Float (*)(Float);
template <typename Float>
using Binary = Float (*)(Float, Float);

// The C names; the casts choose the overload.
#define NG_UNARY(name)                                                          \
  {#name "f", reinterpret_cast<void*>(static_cast<Unary<float>>(std::name))}, { \
    #name, reinterpret_cast<void*>(static_cast<Unary<double>>(std::name))       \
  }
#define NG_BINARY(name)                                                          \
  {#name "f", reinterpret_cast<void*>(static_cast<Binary<float>>(std::name))}, { \
    #name, reinterpret_cast<void*>(static_cast<Binary<double>>(std::name))       \
  }

// glibc's erfc is the only one of its functions of double that is off by more than 2 ulp.
double precise_erfc(double x) { return static_cast<double>(std::erfc(static_cast<long double>(x))); }

const Table& table() {
  static const Table all = {
      NG_UNARY(exp),
      NG_UNARY(exp2),
      NG_UNARY(expm1),
      NG_UNARY(log),
      NG_UNARY(log2),
      NG_UNARY(log10),
      NG_UNARY(log1p),
      NG_UNARY(sin),
      NG_UNARY(cos),
      NG_UNARY(tan),
      NG_UNARY(asin),
      NG_UNARY(acos),
      NG_UNARY(atan),
      NG_UNARY(sinh),
      NG_UNARY(cosh),
      NG_UNARY(tanh),
      NG_UNARY(asinh),
      NG_UNARY(acosh),
      NG_UNARY(atanh),
      NG_UNARY(erf),
      NG_UNARY(erfc),
      NG_UNARY(cbrt),
      NG_UNARY(floor),
      NG_UNARY(ceil),
      NG_UNARY(trunc),
      NG_UNARY(rint),
      NG_UNARY(nearbyint),
      NG_UNARY(round),
      NG_UNARY(lgamma),
      NG_UNARY(tgamma),
      NG_BINARY(pow),
      NG_BINARY(atan2),
      NG_BINARY(fmod),
      NG_BINARY(hypot),
      NG_BINARY(remainder),
      {"npugraph_erfc", reinterpret_cast<void*>(precise_erfc)},
      {"memcpy", reinterpret_cast<void*>(std::memcpy)},
      {"memmove", reinterpret_cast<void*>(std::memmove)},
      {"memset", reinterpret_cast<void*>(std::memset)},
  };
  return all;
}

#undef NG_UNARY
#undef NG_BINARY

}  // namespace

void* library_function(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace npugraph::codegen
