# SPDX-License-Identifier: Apache-2.0
"""From Dynamo's graph to a compiled function. ``pipeline.py`` is the table of contents: start reading there."""
