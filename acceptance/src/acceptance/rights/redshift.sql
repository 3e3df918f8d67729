-- The user of the suite makes one schema, owns it, and drops it. Nothing that exists is read or changed.
CREATE USER acceptance PASSWORD '...';
GRANT CREATE, TEMPORARY ON DATABASE dev TO acceptance;
