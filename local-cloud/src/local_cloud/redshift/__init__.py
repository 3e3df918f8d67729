"""Redshift on loopback: the wire protocol and the SQL of Redshift in front of a PostgreSQL of its own."""
