# SPDX-License-Identifier: Apache-2.0
"""What Dynamo gives: its graph, traced into the functional graph of its operators, and the sources of its inputs."""
