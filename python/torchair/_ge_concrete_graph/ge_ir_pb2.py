# SPDX-License-Identifier: Apache-2.0
"""The messages of GE graphs, under the name of the module that protoc makes."""

from npugraph.ge.proto import __dir__, __getattr__  # noqa: F401
