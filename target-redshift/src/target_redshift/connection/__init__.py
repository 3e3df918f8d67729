"""Sessions of Redshift, and what its errors mean.

client       Redshift as the target needs it: the schema, and what the catalog says of its tables
connection   The connection to Redshift: log-in, sessions, and a pool of them
error_kinds  What Redshift's errors call for
resources    What Redshift answers, in our words
"""
