# SPDX-License-Identifier: Apache-2.0
"""``torch_npu.Format``, and numbers for element types that torch does not have."""

import enum

from npugraph._C import ge as _ge

Format = enum.IntEnum("Format", _ge.FORMATS, module=__name__)
Format.__doc__ = "How an NPU arranges the memory of a tensor, by the driver's numbers."

# Operators take these numbers in an ``int dtype`` argument. Each is 256 plus the driver's number of the type.
int4 = 285
hifloat8 = 290
float8_e5m2 = 291
float8_e4m3fn = 292
float8_e8m0fnu = 293
float4_e2m1fn_x2 = 296
float4_e1m2fn_x2 = 297
