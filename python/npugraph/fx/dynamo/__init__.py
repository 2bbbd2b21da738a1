# SPDX-License-Identifier: Apache-2.0
"""The front end: traces Dynamo's graph into a functional graph of operators, and reads the sources of its inputs."""
