"""Redshift's SQL as PostgreSQL's. Pure.

accounts     Users, groups and roles of Redshift as roles of PostgreSQL (pure)
columns      A column in CREATE TABLE or ALTER TABLE ... ADD COLUMN (pure)
ddl          CREATE TABLE and ALTER TABLE of Redshift, as PostgreSQL's (pure)
expressions  What is written differently inside statements of Redshift and of PostgreSQL (pure)
merge        MERGE in the form that Redshift takes, as PostgreSQL's (pure). Page "MERGE" of the Redshift guide
names        Identifiers of up to 127 bytes on a PostgreSQL that takes 63
reading      Reading a statement word by word (pure)
rewrite      Statements in Redshift's SQL as statements for PostgreSQL or for the proxy, or refused as Redshift refuse
statement    What a statement of Redshift becomes: one of PostgreSQL, or something that the proxy does (pure)
tokens       SQL text as tokens (pure)
types        Redshift's types in DDL and casts, as PostgreSQL's (pure). Page "Data types" of the Redshift guide
unload       The text of an UNLOAD, and its rows as files (pure). Page "UNLOAD" of the Redshift guide
"""
