# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m npugraph``: modules with ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""
