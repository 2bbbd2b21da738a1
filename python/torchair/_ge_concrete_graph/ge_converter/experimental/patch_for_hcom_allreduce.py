# SPDX-License-Identifier: Apache-2.0
"""Scripts import this module for torch 2.1, where Dynamo does not trace collectives. Here there is nothing to patch."""
