"""Exercises that check themselves: a sheet for each notebook, and a bank of faults as homework.

After `from dpkit.course.exercises import start_here as turn`: `turn.weekly_noise.check(answer)`,
`.hint(1)` and `.solution()`; `turn.sheet.quiz()` shows the questions with a choice as buttons.
"""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
