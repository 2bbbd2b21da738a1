# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph bench script.py``: times the compiled graphs of a script against eager mode and Inductor.

``calls.py`` keeps the first call of each graph while the script runs. ``turns.py`` times these calls afterwards.
"""
