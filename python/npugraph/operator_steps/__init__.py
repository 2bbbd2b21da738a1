# SPDX-License-Identifier: Apache-2.0
"""The six steps by which an operator of the user gets into graphs: schema, kernel, eager mode, Meta function,
functionalisation, converter. ``steps.py`` says which of them an operator has, ``code.py`` has the code of a missing
one, ``hints.py`` puts that into errors, and ``check.py`` runs the operator and compares."""
