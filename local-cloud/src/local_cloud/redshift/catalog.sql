-- What Redshift has and PostgreSQL has not: types, functions, system tables. Run once, as the superuser.
-- The schema local_cloud is the server's own memory; the names that clients use are in pg_catalog.

CREATE SCHEMA local_cloud;
GRANT USAGE ON SCHEMA local_cloud TO PUBLIC;
GRANT CREATE ON SCHEMA public TO PUBLIC;

CREATE TABLE local_cloud.about (catalog text NOT NULL);
CREATE TABLE local_cloud.slices (slice int NOT NULL);
CREATE TABLE local_cloud.long_names (short text PRIMARY KEY, long text NOT NULL);
CREATE TABLE local_cloud.created (table_id oid PRIMARY KEY, at timestamp NOT NULL);
CREATE TABLE local_cloud.layouts (
    table_id oid PRIMARY KEY, diststyle text NOT NULL, distkey text, sortkeys text[] NOT NULL, encodings jsonb NOT NULL
);
CREATE TABLE local_cloud.load_errors (
    copy_id int, user_id int, session_id int, table_id int, slice int, at timestamp,
    file text, line bigint, column_name text, type text, length text, position int,
    raw_line text, raw_value text, code int, reason text
);
CREATE TABLE local_cloud.load_commits (
    copy_id int, user_id int, session_id int, table_id int, slice int, at timestamp, file text, bytes bigint, rows bigint
);
CREATE SEQUENCE local_cloud.copy_ids MAXVALUE 2147483647;
-- Sequences keep a session's last value whatever becomes of its transaction, as Redshift does for its last COPY.
CREATE SEQUENCE local_cloud.copy_rows MINVALUE 0;
GRANT SELECT ON local_cloud.long_names, local_cloud.created, local_cloud.layouts TO PUBLIC;
GRANT USAGE, UPDATE ON SEQUENCE local_cloud.copy_ids, local_cloud.copy_rows TO PUBLIC;

CREATE FUNCTION local_cloud.full_name(short text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN short LIKE '%~%'
        THEN coalesce((SELECT n.long FROM local_cloud.long_names n WHERE n.short = $1), $1) ELSE $1 END $$;

CREATE FUNCTION local_cloud.user_id() RETURNS int LANGUAGE sql STABLE AS $$
    SELECT usesysid::int FROM pg_user WHERE usename = current_user $$;

CREATE FUNCTION local_cloud.sees(owner int) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT usesuper OR usesysid::int = $1 FROM pg_user WHERE usename = current_user $$;

-- When a table was made, for pg_class_info.
CREATE FUNCTION local_cloud.note_creation() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO local_cloud.created
    SELECT DISTINCT objid, statement_timestamp() AT TIME ZONE 'UTC' FROM pg_event_trigger_ddl_commands()
    WHERE object_type = 'table' AND command_tag <> 'ALTER TABLE'
    ON CONFLICT (table_id) DO UPDATE SET at = excluded.at;
END $$;
CREATE EVENT TRIGGER note_creation ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')
    EXECUTE FUNCTION local_cloud.note_creation();

CREATE FUNCTION local_cloud.set_layout(
    table_name text, diststyle text, distkey text, sortkeys text, encodings text, parent text
) RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    INSERT INTO local_cloud.layouts
    SELECT table_name::regclass, coalesce(nullif($2, ''), p.diststyle, 'AUTO(ALL)'), coalesce(local_cloud.full_name(nullif($3, '')), p.distkey),
        CASE WHEN $4 = '[]' AND p.table_id IS NOT NULL THEN p.sortkeys
            ELSE ARRAY(SELECT local_cloud.full_name(key) FROM json_array_elements_text($4::json) key) END,
        coalesce(p.encodings, '{}') || $5::json::jsonb
    FROM (VALUES (1)) one LEFT JOIN local_cloud.layouts p ON p.table_id = to_regclass($6)
    ON CONFLICT (table_id) DO NOTHING $$;

-- Types and casts.

CREATE DOMAIN pg_catalog.super AS jsonb;

CREATE FUNCTION local_cloud.text_bytes(text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT convert_to($1, 'UTF8') $$;
CREATE FUNCTION local_cloud.as_super(text) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(numeric) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(float8) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(float4) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(integer) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(smallint) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE FUNCTION local_cloud.as_super(boolean) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT to_jsonb($1) $$;
CREATE CAST (text AS bytea) WITH FUNCTION local_cloud.text_bytes(text);
CREATE CAST (varchar AS bytea) WITH FUNCTION local_cloud.text_bytes(text);
CREATE CAST (text AS jsonb) WITH FUNCTION local_cloud.as_super(text) AS ASSIGNMENT;
CREATE CAST (varchar AS jsonb) WITH FUNCTION local_cloud.as_super(text) AS ASSIGNMENT;
CREATE CAST (numeric AS jsonb) WITH FUNCTION local_cloud.as_super(numeric) AS ASSIGNMENT;
CREATE CAST (float8 AS jsonb) WITH FUNCTION local_cloud.as_super(float8) AS ASSIGNMENT;
CREATE CAST (float4 AS jsonb) WITH FUNCTION local_cloud.as_super(float4) AS ASSIGNMENT;
CREATE CAST (bigint AS jsonb) WITH FUNCTION local_cloud.as_super(bigint) AS ASSIGNMENT;
CREATE CAST (integer AS jsonb) WITH FUNCTION local_cloud.as_super(integer) AS ASSIGNMENT;
CREATE CAST (smallint AS jsonb) WITH FUNCTION local_cloud.as_super(smallint) AS ASSIGNMENT;
CREATE CAST (boolean AS jsonb) WITH FUNCTION local_cloud.as_super(boolean) AS ASSIGNMENT;

-- Functions.

CREATE OR REPLACE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), '
        || 'Redshift 1.0.100000 (local-cloud)' $$;
CREATE FUNCTION pg_catalog.getdate() RETURNS timestamp LANGUAGE sql STABLE AS
    $$ SELECT date_trunc('second', statement_timestamp() AT TIME ZONE 'UTC') $$;
CREATE FUNCTION pg_catalog.json_parse(text) RETURNS super LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT cast(cast($1 AS json) AS jsonb)::super $$;
CREATE FUNCTION pg_catalog.json_serialize(super) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT concat($1)::varchar $$;
CREATE FUNCTION pg_catalog.can_json_parse(text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT pg_input_is_valid($1, 'jsonb') $$;
CREATE FUNCTION pg_catalog.is_valid_json(text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT pg_input_is_valid($1, 'jsonb') AND left(ltrim($1), 1) = '{' $$;
CREATE FUNCTION pg_catalog.json_extract_path_text(text, VARIADIC text[]) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT coalesce(cast($1 AS json) #>> $2, '') $$;
CREATE FUNCTION pg_catalog.len(text) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT length($1) $$;
CREATE FUNCTION pg_catalog.to_varbyte(text, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE lower($2) WHEN 'base64' THEN decode($1, 'base64') WHEN 'hex' THEN decode($1, 'hex')
        WHEN 'utf8' THEN convert_to($1, 'UTF8') WHEN 'utf-8' THEN convert_to($1, 'UTF8')
        ELSE cast('format ' || $2 || ' is not supported' AS int)::text::bytea END $$;
CREATE FUNCTION pg_catalog.from_varbyte(bytea, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE lower($2) WHEN 'base64' THEN replace(encode($1, 'base64'), chr(10), '') WHEN 'hex' THEN encode($1, 'hex')
        WHEN 'utf8' THEN convert_from($1, 'UTF8') WHEN 'utf-8' THEN convert_from($1, 'UTF8')
        ELSE cast('format ' || $2 || ' is not supported' AS int)::text END $$;
CREATE FUNCTION pg_catalog.to_hex(bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT encode($1, 'hex') $$;
-- Not STRICT, so that it is inlined: a call a row would take five times as long.
CREATE FUNCTION pg_catalog.strtol(text, int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE $2 WHEN 16 THEN cast(cast('x' || lpad($1, 16, '0') AS bit(64)) AS bigint)
        ELSE cast('base ' || $2 || ' is not supported' AS bigint) END $$;
CREATE FUNCTION pg_catalog.sha2(text, int) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT encode(CASE $2 WHEN 0 THEN sha256(convert_to($1, 'UTF8')) WHEN 224 THEN sha224(convert_to($1, 'UTF8'))
        WHEN 256 THEN sha256(convert_to($1, 'UTF8')) WHEN 384 THEN sha384(convert_to($1, 'UTF8'))
        WHEN 512 THEN sha512(convert_to($1, 'UTF8')) END, 'hex') $$;
CREATE FUNCTION pg_catalog.convert_timezone(text, timestamp) RETURNS timestamp LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT $2 AT TIME ZONE 'UTC' AT TIME ZONE $1 $$;
CREATE FUNCTION pg_catalog.convert_timezone(text, text, timestamp) RETURNS timestamp LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT $3 AT TIME ZONE $1 AT TIME ZONE $2 $$;
CREATE FUNCTION pg_catalog.dateadd(text, bigint, timestamp) RETURNS timestamp LANGUAGE sql IMMUTABLE STRICT AS
    $$ SELECT $3 + cast($2 || ' ' || $1 AS interval) $$;
-- The boundaries of the part between both, as Redshift counts.
CREATE FUNCTION pg_catalog.datediff(text, timestamp, timestamp) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN $1 IN ('year', 'years') THEN extract(year FROM $3) - extract(year FROM $2)
        WHEN $1 IN ('month', 'months') THEN 12 * (extract(year FROM $3) - extract(year FROM $2))
            + extract(month FROM $3) - extract(month FROM $2)
        ELSE extract(epoch FROM date_trunc($1, $3) - date_trunc($1, $2))
            / extract(epoch FROM cast('1 ' || $1 AS interval)) END::bigint $$;

-- currval fails before a session's first COPY.
CREATE FUNCTION local_cloud.last_of(sequence text, otherwise bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN currval(sequence);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RETURN otherwise;
END $$;
CREATE FUNCTION pg_catalog.pg_last_copy_count() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT local_cloud.last_of('local_cloud.copy_rows', 0) $$;
CREATE FUNCTION pg_catalog.pg_last_copy_id() RETURNS int LANGUAGE sql VOLATILE AS
    $$ SELECT local_cloud.last_of('local_cloud.copy_ids', -1)::int $$;

-- Tables and columns.

CREATE VIEW local_cloud.columns AS
SELECT a.attrelid AS table_id,
    local_cloud.full_name(a.attname::text) AS name,
    a.attnum::int AS position,
    CASE t.typname WHEN 'int2' THEN 'smallint' WHEN 'int4' THEN 'integer' WHEN 'int8' THEN 'bigint'
        WHEN 'float4' THEN 'real' WHEN 'float8' THEN 'double precision' WHEN 'bool' THEN 'boolean'
        WHEN 'bpchar' THEN 'character' WHEN 'varchar' THEN 'character varying' WHEN 'text' THEN 'character varying'
        WHEN 'bytea' THEN 'binary varying' WHEN 'jsonb' THEN 'super'
        WHEN 'timestamp' THEN 'timestamp without time zone' WHEN 'timestamptz' THEN 'timestamp with time zone'
        WHEN 'time' THEN 'time without time zone' WHEN 'timetz' THEN 'time with time zone'
        ELSE t.typname::text END AS type,
    CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN a.atttypmod - 4
        WHEN t.typname IN ('varchar', 'text') THEN 65535
        WHEN t.typname = 'bytea' THEN coalesce(limits.bytes, 16777216) END AS length,
    CASE WHEN t.typname = 'numeric' THEN CASE WHEN a.atttypmod > 4 THEN (a.atttypmod - 4) >> 16 ELSE 38 END
        WHEN t.typname = 'int2' THEN 16 WHEN t.typname = 'int4' THEN 32 WHEN t.typname = 'int8' THEN 64
        WHEN t.typname = 'float4' THEN 24 WHEN t.typname = 'float8' THEN 53 END AS precision,
    CASE WHEN t.typname = 'numeric' THEN CASE WHEN a.atttypmod > 4 THEN (a.atttypmod - 4) & 2047 ELSE 0 END
        WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 END AS scale,
    NOT a.attnotnull AS is_nullable,
    a.attidentity <> '' AS is_identity,
    pg_get_expr(d.adbin, d.adrelid) AS default_value
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN LATERAL (
    SELECT split_part(conname, '_', 2)::int AS bytes FROM pg_constraint k
    WHERE k.conrelid = a.attrelid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum] AND k.conname LIKE 'bytes%'
) limits ON t.typname = 'bytea'
WHERE a.attnum > 0 AND NOT a.attisdropped;
GRANT SELECT ON local_cloud.columns TO PUBLIC;

CREATE VIEW local_cloud.tables AS
SELECT c.oid AS table_id, local_cloud.full_name(n.nspname::text) AS schema_name,
    local_cloud.full_name(c.relname::text) AS name, c.relkind AS kind, c.relowner AS owner,
    obj_description(c.oid, 'pg_class') AS remarks, c.relpersistence = 't' AS is_temporary,
    coalesce(l.diststyle, 'AUTO(ALL)') AS diststyle, l.distkey, coalesce(l.sortkeys, '{}') AS sortkeys,
    coalesce(l.encodings, '{}') AS encodings, k.at AS created
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN local_cloud.layouts l ON l.table_id = c.oid
LEFT JOIN local_cloud.created k ON k.table_id = c.oid
WHERE c.relkind IN ('r', 'v') AND n.nspname NOT LIKE 'pg!_toast%' ESCAPE '!' AND n.nspname <> 'local_cloud';
GRANT SELECT ON local_cloud.tables TO PUBLIC;

CREATE FUNCTION local_cloud.count_rows(table_id oid) RETURNS numeric LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '200ms' AS $$
DECLARE counted numeric;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s', table_id::regclass) INTO counted;
    RETURN counted;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
    RETURN NULL;
END $$;

CREATE VIEW pg_catalog.svv_table_info AS
SELECT current_database()::text AS "database", t.schema_name AS "schema", t.table_id::int AS table_id, t.name AS "table",
    CASE WHEN t.encodings = '{}' THEN 'Y, AUTO(ENCODE)' ELSE 'Y' END AS encoded, t.diststyle,
    coalesce(t.sortkeys[1], 'AUTO(SORTKEY)') AS sortkey1,
    (SELECT coalesce(max(c.length), 0) FROM local_cloud.columns c WHERE c.table_id = t.table_id AND c.type LIKE 'char%')
        AS max_varchar,
    ''::text AS sortkey1_enc, cardinality(t.sortkeys) AS sortkey_num,
    1 + pg_relation_size(t.table_id) / 1048576 AS "size", 0.0::numeric AS pct_used, 0::bigint AS empty,
    0::numeric AS unsorted, 0::numeric AS stats_off, local_cloud.count_rows(t.table_id) AS tbl_rows,
    NULL::numeric AS skew_sortkey1, NULL::numeric AS skew_rows,
    local_cloud.count_rows(t.table_id) AS estimated_visible_rows, NULL::text AS risk_event,
    NULL::numeric AS vacuum_sort_benefit, t.created AS create_time
FROM local_cloud.tables t
WHERE t.kind = 'r' AND NOT t.is_temporary AND t.schema_name NOT IN ('pg_catalog', 'information_schema');

CREATE VIEW pg_catalog.svv_tables AS
SELECT current_database()::text AS table_catalog, t.schema_name AS table_schema, t.name AS table_name,
    CASE WHEN t.kind = 'v' THEN 'VIEW' WHEN t.is_temporary THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE' END AS table_type,
    t.remarks
FROM local_cloud.tables t WHERE has_table_privilege(t.table_id, 'SELECT') OR pg_has_role(t.owner, 'USAGE');

CREATE VIEW pg_catalog.svv_columns AS
SELECT current_database()::text AS table_catalog, t.schema_name AS table_schema, t.name AS table_name,
    c.name AS column_name, row_number() OVER (PARTITION BY c.table_id ORDER BY c.position)::int AS ordinal_position,
    CASE WHEN c.is_identity THEN format('"identity"(%s, %s, ''1,1''::text)', c.table_id, c.position - 1)
        ELSE c.default_value END AS column_default, CASE WHEN c.is_nullable THEN 'YES' ELSE 'NO' END AS is_nullable,
    c.type AS data_type, CASE WHEN c.type <> 'binary varying' THEN c.length END AS character_maximum_length,
    c.precision AS numeric_precision,
    NULL::int AS numeric_precision_radix, c.scale AS numeric_scale, NULL::int AS datetime_precision,
    NULL::text AS interval_type, NULL::text AS interval_precision, NULL::text AS character_set_catalog,
    NULL::text AS character_set_schema, NULL::text AS character_set_name, NULL::text AS collation_catalog,
    NULL::text AS collation_schema, NULL::text AS collation_name, NULL::text AS domain_name,
    col_description(c.table_id, c.position) AS remarks
FROM local_cloud.columns c JOIN local_cloud.tables t USING (table_id)
WHERE has_table_privilege(t.table_id, 'SELECT') OR pg_has_role(t.owner, 'USAGE');

CREATE VIEW pg_catalog.svv_redshift_columns AS
SELECT v.table_catalog AS database_name, v.table_schema AS schema_name, v.table_name, v.column_name, v.ordinal_position,
    v.data_type, v.column_default, v.is_nullable, ''::text AS encoding,
    coalesce(t.distkey = v.column_name, false) AS distkey,
    coalesce(array_position(t.sortkeys, v.column_name), 0) AS sortkey, NULL::text AS column_acl, v.remarks
FROM pg_catalog.svv_columns v
JOIN local_cloud.tables t ON t.schema_name = v.table_schema AND t.name = v.table_name;

CREATE VIEW pg_catalog.svv_redshift_tables AS
SELECT table_catalog AS database_name, table_schema AS schema_name, table_name,
    CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END AS table_type, NULL::text AS table_acl, remarks
FROM pg_catalog.svv_tables;

CREATE VIEW pg_catalog.pg_table_def AS
SELECT t.schema_name AS schemaname, t.name AS tablename, c.name AS "column",
    c.type || CASE WHEN c.type = 'numeric' THEN format('(%s,%s)', c.precision, c.scale)
        WHEN c.length IS NOT NULL THEN format('(%s)', c.length) ELSE '' END AS "type",
    coalesce(t.encodings ->> c.name, 'none') AS encoding, coalesce(t.distkey = c.name, false) AS distkey,
    coalesce(array_position(t.sortkeys, c.name), 0) AS sortkey, NOT c.is_nullable AS "notnull"
FROM local_cloud.columns c JOIN local_cloud.tables t USING (table_id)
WHERE t.kind = 'r' AND pg_table_is_visible(t.table_id)
ORDER BY t.schema_name, t.name, c.position;

CREATE VIEW pg_catalog.pg_class_info AS
SELECT c.oid AS reloid, local_cloud.full_name(c.relname::text) AS relname, c.relnamespace, c.reltype, c.relowner, c.relam,
    c.relfilenode, c.relpages, c.reltuples, c.relkind, c.relnatts, c.relacl,
    CASE WHEN l.diststyle LIKE 'KEY%' THEN 1 WHEN l.diststyle = 'ALL' THEN 8 WHEN l.diststyle = 'EVEN' THEN 0
        ELSE 10 END AS releffectivediststyle, k.at AS relcreationtime
FROM pg_class c LEFT JOIN local_cloud.layouts l ON l.table_id = c.oid LEFT JOIN local_cloud.created k ON k.table_id = c.oid;

CREATE VIEW pg_catalog.pg_attribute_info AS
SELECT attrelid, local_cloud.full_name(attname::text) AS attname, atttypid, attlen, attnum, atttypmod, attnotnull, atthasdef,
    attisdropped, attislocal, attinhcount, attacl FROM pg_attribute;

-- The cluster and its loads.

CREATE VIEW pg_catalog.stv_slices AS
SELECT 0 AS node, slice, slice AS localslice, 'D'::char(1) AS "type" FROM local_cloud.slices;

CREATE VIEW pg_catalog.stv_sessions AS
SELECT backend_start AT TIME ZONE 'UTC' AS starttime, pid AS process, usename::char(50) AS user_name,
    datname::char(50) AS db_name, 0 AS timeout_sec
FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename <> 'rdsdb';

CREATE VIEW pg_catalog.stl_load_errors AS
SELECT user_id AS userid, slice, table_id AS tbl, at AS starttime, session_id AS session, copy_id AS query,
    file::char(256) AS filename, line AS line_number, local_cloud.full_name(column_name)::char(127) AS colname,
    type::char(10) AS "type", length::char(10) AS col_length, position AS "position", raw_line::char(1024) AS raw_line,
    raw_value::char(1024) AS raw_field_value, code AS err_code, reason::char(100) AS err_reason, 0 AS is_partial,
    0::bigint AS start_offset, 0::bigint AS copy_job_id
FROM local_cloud.load_errors WHERE local_cloud.sees(user_id);

CREATE VIEW pg_catalog.sys_load_error_detail AS
SELECT user_id, copy_id::bigint AS query_id, 0::bigint AS transaction_id, session_id,
    current_database()::text AS database_name, table_id, at AS start_time, file AS file_name, line AS line_number,
    local_cloud.full_name(column_name) AS column_name, type AS column_type, length AS column_length,
    position AS "position", code AS error_code, reason::varchar(512) AS error_message
FROM local_cloud.load_errors WHERE local_cloud.sees(user_id);

CREATE VIEW pg_catalog.stl_load_commits AS
SELECT user_id AS userid, copy_id AS query, slice, ''::char(25) AS name, file::char(256) AS filename,
    0::bigint AS byte_offset, rows AS lines_scanned, 0 AS errors, at AS curtime, 1 AS status, bytes AS file_size
FROM local_cloud.load_commits WHERE local_cloud.sees(user_id);

CREATE VIEW pg_catalog.svv_roles AS
SELECT oid::bigint AS role_id, substr(rolname, 6)::text AS role_name, 'demo'::text AS role_owner
FROM pg_roles WHERE rolname LIKE 'role:%';

-- Groups and roles are roles of PostgreSQL whose names begin with their kind, so that they do not meet users.
CREATE OR REPLACE VIEW pg_catalog.pg_group AS
SELECT substr(r.rolname, 7)::name AS groname, r.oid AS grosysid,
    ARRAY(SELECT m.member FROM pg_auth_members m WHERE m.roleid = r.oid) AS grolist
FROM pg_authid r WHERE r.rolname LIKE 'group:%';

GRANT SELECT ON pg_catalog.svv_tables, pg_catalog.svv_columns, pg_catalog.svv_redshift_columns,
    pg_catalog.svv_redshift_tables, pg_catalog.pg_table_def, pg_catalog.pg_class_info, pg_catalog.pg_attribute_info, pg_catalog.stv_slices,
    pg_catalog.stl_load_errors, pg_catalog.sys_load_error_detail, pg_catalog.stl_load_commits, pg_catalog.svv_roles
    TO PUBLIC;
