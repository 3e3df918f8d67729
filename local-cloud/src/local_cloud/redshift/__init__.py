"""Redshift on loopback: the wire protocol and the SQL of Redshift in front of a PostgreSQL of its own.

From the outside in: `server` is the process, `clients` its threads, `handshake` lets a client in, `session` does what
it says, `rewrite` reads its SQL (pure, with `ddl`, `merge`, `accounts`, `expressions`, `types`), `special` does what
PostgreSQL cannot (`copying`, `unloading`), `backend` talks to PostgreSQL and `translate` (pure) says in Redshift's way
what it answers. `catalog.sql` is what the database has from the start. Where it differs from Redshift is listed in
local-cloud/README.md, for COPY in `local_cloud.redshift.copy`.
"""
