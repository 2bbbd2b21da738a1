// SPDX-License-Identifier: Apache-2.0
// Polynomials of the mathematical functions, lowest power first. Written by scripts/fit_math.
#pragma once

namespace npugraph::codegen {

// exp(r) = 1 + r + r^2 P(r); error 2^-26.0.
inline constexpr double kExpTail[] = {0x1.fffffe0000000p-2, 0x1.5554a80000000p-3, 0x1.5556de0000000p-5,
                                      0x1.122db20000000p-7, 0x1.6bea5c0000000p-10};

// the same for f64; error 2^-61.5.
inline constexpr double kExpTailF64[] = {0x1.0000000000000p-1,  0x1.5555555555559p-3,  0x1.5555555555547p-5,
                                         0x1.111111110f665p-7,  0x1.6c16c16c1fd78p-10, 0x1.a01a01b00cc9cp-13,
                                         0x1.a01a016a210e1p-16, 0x1.71ddf7c3c2f07p-19, 0x1.27e57117d54f4p-22,
                                         0x1.af600cd617190p-26, 0x1.1e741f2ad12f2p-29};

// 2^r = 1 + r P(r); error 2^-26.2.
inline constexpr double kExp2Tail[] = {0x1.62e4300000000p-1, 0x1.ebfb940000000p-3,  0x1.c6af9e0000000p-5,
                                       0x1.3b68100000000p-7, 0x1.5ef5180000000p-10, 0x1.17b1f00000000p-13};

// the same, good to 22 bits; error 2^-23.3.
inline constexpr double kExp2TailShort[] = {0x1.62e42a0000000p-1, 0x1.ebf9ba0000000p-3, 0x1.c6b6a60000000p-5,
                                            0x1.3cec160000000p-7, 0x1.5c029a0000000p-10};

// 2^r = P(r), for f32 results computed in f64; error 2^-29.0.
inline constexpr double kExp2Wide[] = {0x1.000000026b2b8p+0, 0x1.62e430ca71fe4p-1, 0x1.ebfbdacc9bba9p-3,
                                       0x1.c6aed13d8e4b2p-5, 0x1.3b2dc2103b47bp-7, 0x1.5f472ea6d6630p-10,
                                       0x1.41d1e79c55d00p-13};

// log(1 + f) = f + f^2 P(f); error 2^-27.6.
inline constexpr double kLogTail[] = {-0x1.0000000000000p-1, 0x1.5554fa0000000p-2,  -0x1.ffff940000000p-3,
                                      0x1.99d5960000000p-3,  -0x1.557dfc0000000p-3, 0x1.1e7e980000000p-3,
                                      -0x1.f6cf6c0000000p-4, 0x1.201e1e0000000p-3,  -0x1.fe8dee0000000p-4};

// log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s^2, for f64; error 2^-59.5.
inline constexpr double kLogTailF64[] = {0x1.5555555555593p-1, 0x1.999999997f9f2p-2, 0x1.249249422ad17p-2,
                                         0x1.c71c51d73a83fp-3, 0x1.746649d2f371bp-3, 0x1.39a091ae87377p-3,
                                         0x1.2f11a7c204151p-3};

// log2((1 + s) / (1 - s)) = s P(z), z = s^2, for f32 results computed in f64; error 2^-36.2.
inline constexpr double kLog2Wide[] = {0x1.71547652bef42p+1, 0x1.ec709d113b81cp-1, 0x1.2777811575750p-1,
                                       0x1.a58cfab85d939p-2, 0x1.5cf2b50a53aa6p-2};

// sin(r) = r + r z P(z), z = r^2; error 2^-27.7.
inline constexpr double kSinTail[] = {-0x1.5555440000000p-3, 0x1.1106ae0000000p-7, -0x1.990f920000000p-13};

// cos(r) = 1 - z / 2 + z^2 P(z), z = r^2; error 2^-32.6.
inline constexpr double kCosTail[] = {0x1.5555480000000p-5, -0x1.6c0af40000000p-10, 0x1.99912a0000000p-16};

// tan(r) = r + r z P(z), z = r^2, for f32 results computed in f64; error 2^-33.3.
inline constexpr double kTanWide[] = {0x1.55555449f5125p-2,   0x1.11117cfe5e576p-3, 0x1.b9fe0af1b283bp-5,
                                      0x1.684117cd57500p-6,   0x1.10902b0dd799bp-7, 0x1.490b989d788c0p-8,
                                      -0x1.484cca0721d3ep-11, 0x1.0d4560f9a2c0fp-9};

// asin(x) = x + x z P(z), z = x^2; error 2^-27.6.
inline constexpr double kAsinTail[] = {0x1.5555c80000000p-3, 0x1.3302040000000p-4, 0x1.747bb80000000p-5,
                                       0x1.8c3e5e0000000p-6, 0x1.595c480000000p-5};

// atan(x) = x + x z P(z), z = x^2; error 2^-28.5.
inline constexpr double kAtanTail[] = {-0x1.55553e0000000p-2, 0x1.9991e40000000p-3,  -0x1.2420a80000000p-3,
                                       0x1.c08ffa0000000p-4,  -0x1.581be80000000p-4, 0x1.da87600000000p-5,
                                       -0x1.fe70700000000p-6, 0x1.6562220000000p-7,  -0x1.d5f02c0000000p-10};

// erf(x) = x + x P(x^2) for |x| < 0.8; error 2^-28.1.
inline constexpr double kErfTail[] = {0x1.06eba80000000p-3,  -0x1.8127320000000p-2, 0x1.ce28880000000p-4,
                                      -0x1.b774a40000000p-6, 0x1.4d5f740000000p-8,  -0x1.5700b20000000p-11};

// erf(x) = 1 - 2^P(x) for 0.8 <= x <= 4; error 2^-28.6.
inline constexpr double kLog2Erfc[] = {-0x1.584c880000000p-14, -0x1.a0b44c0000000p+0, -0x1.d5e4a00000000p-1,
                                       -0x1.35deb40000000p-3,  0x1.0c3eb40000000p-5,  -0x1.2b38720000000p-8,
                                       0x1.3bae4c0000000p-12};

// erfc(x) = exp(-x^2) P(1 / (x + 3)) for x >= 0, for f32 results computed in f64; error 2^-30.5.
inline constexpr double kErfcWide[] = {0x1.5a8e1e1bf2e90p-17,  0x1.207354ca6950dp-1,   0x1.b8854166924e9p+0,
                                       0x1.0e03e49e66764p+2,   0x1.45e341800d889p+4,   -0x1.369e59905ac00p+5,
                                       0x1.fb04ed548849bp+8,   -0x1.be9c7df46974dp+10, 0x1.62ed9d9555341p+12,
                                       -0x1.279450b54acc1p+13, 0x1.b674057dbde14p+12,  -0x1.9ffd66cfeaafdp+10};

}  // namespace npugraph::codegen
