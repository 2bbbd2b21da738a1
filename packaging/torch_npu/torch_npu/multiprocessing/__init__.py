# SPDX-License-Identifier: Apache-2.0
"""Sends tensors of npu between processes."""
