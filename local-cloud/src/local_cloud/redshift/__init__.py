"""Redshift on loopback: its wire protocol and SQL in front of a PostgreSQL of its own.

A client's connection is accepted by `clients`; `session` executes its statements. `rewrite` in `sql` translates a
statement for PostgreSQL, or into one that `special` executes. `backend` passes PostgreSQL's answers on, which
`translate` makes Redshift's. `catalog.sql` is the initial content of the database. The differences from Redshift are
listed in local-cloud/README.md, for COPY in `local_cloud.redshift.copy`.

backend    a session of PostgreSQL: requests and answers
clients    a thread for each client: TLS, password and start of a session
cluster    the state that all sessions share
copy       COPY: files of S3 as rows for PostgreSQL
copying    COPY and UNLOAD in a session
errors     the error of a failed statement; errors of COPY
faults     faults on request, and the log of statements
postgres   the PostgreSQL server
server     the child process
session    a client's session
special    statements that PostgreSQL does not have
sql        Redshift's SQL as PostgreSQL's
translate  PostgreSQL's answers as Redshift's
wire       the messages of the protocol
"""
