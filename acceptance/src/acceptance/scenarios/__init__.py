"""The scenarios, by topic; each is a function that gets its pipeline.

evolution   columns that come, widen and drift
loads       load methods and their settings
mistakes    what a user can do wrong: the run ends with one line
services    SQS, KMS, roles, stages, and what one warehouse alone has
sources     formats and types, bad rows, objects that come late or change
twice       runs that are repeated, or killed: every row once
"""

from acceptance.scenarios import evolution, loads, mistakes, services, sources, twice

__all__ = ["evolution", "loads", "mistakes", "services", "sources", "twice"]
