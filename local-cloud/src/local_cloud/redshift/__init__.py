"""Redshift on loopback: its wire protocol and SQL in front of a PostgreSQL of its own.

A client's connection is accepted by `handshake`; `session` executes its statements. `rewrite` in `sql` translates a
statement for PostgreSQL, or into one that `special` executes. `backend` passes PostgreSQL's answers on, which
`translate` makes Redshift's. `catalog.sql` is the initial content of the database. The differences from Redshift are
listed in local-cloud/README.md, for COPY in `local_cloud.redshift.copy`.

backend    a session of PostgreSQL: requests and answers
clients    a thread for each client
cluster    the state that all sessions share
copy       COPY: files of S3 as rows for PostgreSQL
copying    COPY in a session
errors     the error of a failed statement
faults     faults on request, and the log of statements
handshake  TLS, password and start of a session
postgres   the PostgreSQL server
server     the child process, and its self-signed certificate
session    a client's session
special    statements that PostgreSQL does not have
sql        Redshift's SQL as PostgreSQL's
translate  PostgreSQL's answers as Redshift's
unloading  UNLOAD in a session
wire       the messages of the protocol
"""
