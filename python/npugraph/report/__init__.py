# SPDX-License-Identifier: Apache-2.0
"""A page of HTML about one artifact: ``artifact.report(path)``, ``python -m npugraph report script.py``.

``facts.py`` collects facts about the artifact. ``page.py`` puts them, as JSON, between the parts of ``html/``, which
draw them.
"""
