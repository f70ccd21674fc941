"""The public benchmark of inference about people behind groups: tasks of known truth, methods, one protocol, one page.

    python -m bench list      # tasks, methods, what is missing; `make bench-truth` runs a part of every task

A task is a list of cases. A case gives arrays to a method; its truth stays with the judge, in another process than the method's.
"""

from bench.cases import Arrays, Case, Method, Task
from bench.registry import METHODS, TASKS
from bench.scoring import judge, score

__all__ = ["METHODS", "TASKS", "Arrays", "Case", "Method", "Task", "judge", "score"]
