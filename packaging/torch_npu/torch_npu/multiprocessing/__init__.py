# SPDX-License-Identifier: Apache-2.0
"""Tensors of npu between processes."""
