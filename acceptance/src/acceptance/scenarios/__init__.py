"""The scenarios, by topic; each is a function that gets its pipeline.

evolution   columns that come, widen and drift
first_week  the tasks of a first week, each as its page says and with no warning that is not true
loads       load methods and their settings
mistakes    what a user can do wrong: the run ends with one line
services    SQS, KMS, roles, stages, and what one warehouse alone has
sources     formats and types, bad rows, objects that come late or change
twice       runs that are repeated, or killed: every row once
"""

from acceptance.scenarios import evolution, first_week, loads, mistakes, services, sources, twice

__all__ = ["evolution", "first_week", "loads", "mistakes", "services", "sources", "twice"]
