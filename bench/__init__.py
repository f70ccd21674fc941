"""The public benchmark of inference about people behind groups: tasks of known truth, methods, one protocol, one page.

    make bench-truth          # a part of every task
    make bench-truth-all      # all of every task
    python -m bench list      # tasks, methods, what is missing

A task is a list of cases. A case gives arrays to a method; its truth stays with the judge, in another process than the method's.
"""

from bench.cases import Arrays, Case, Method, Task
from bench.registry import METHODS, TASKS
from bench.scoring import judge, score

__all__ = ["METHODS", "TASKS", "Arrays", "Case", "Method", "Task", "judge", "score"]
