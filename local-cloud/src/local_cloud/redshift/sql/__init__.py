"""Redshift's SQL as PostgreSQL's. Pure.

accounts     users, groups and roles of Redshift as roles of PostgreSQL
columns      a column in CREATE TABLE or ALTER TABLE ... ADD COLUMN
ddl          CREATE TABLE and ALTER TABLE
expressions  differences inside statements: functions, casts, dates
merge        MERGE in Redshift's form
names        identifiers of up to 127 bytes on a PostgreSQL that allows 63
rewrite      translates statements for PostgreSQL or for the proxy, or refuses them
statement    the translated statements
tokens       SQL text as tokens, and their reader
types        Redshift's types in DDL and casts
unload       the text of an UNLOAD, and its rows as files
"""
