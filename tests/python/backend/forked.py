# SPDX-License-Identifier: Apache-2.0
"""Source text for test programs: ``at_once`` calls the program's ``run()`` in several forked processes, which share one
import of torch."""

AT_ONCE = """
import multiprocessing, torch, torch._dynamo

fork = multiprocessing.get_context("fork")
torch.set_num_threads(1)

def child(barrier, queue):
    barrier.wait()
    queue.put(run())

def at_once(count):
    barrier, queue = fork.Barrier(count), fork.Queue()
    children = [fork.Process(target=child, args=(barrier, queue)) for _ in range(count)]
    for process in children:
        process.start()
    results = [queue.get() for _ in children]
    for process in children:
        process.join()
    return results
"""
