#!/bin/sh
# mkdb-postgres.sh USERS PASSWORD: the same database as mkdb.sh makes, in a PostgreSQL on 127.0.0.1. The tables are those of
# Debian's kamailio-postgres-modules.
set -e
users=$1 password=$2 tables=/usr/share/kamailio/postgres
export PGHOST=127.0.0.1 PGUSER=postgres PGOPTIONS='-c client_min_messages=warning'
# It listens before it has started.
for _ in $(seq 100); do
  pg_isready -q && break
  sleep 0.1
done
psql -qX -v ON_ERROR_STOP=1 -c 'CREATE ROLE kamailio LOGIN' -c 'CREATE DATABASE kamailio OWNER kamailio'
export PGUSER=kamailio PGDATABASE=kamailio
cat $tables/standard-create.sql $tables/auth_db-create.sql $tables/usrloc-create.sql |
  psql -qX -v ON_ERROR_STOP=1 >/dev/null
psql -qX -v ON_ERROR_STOP=1 >/dev/null <<SQL
CREATE TABLE htable_pw (id SERIAL PRIMARY KEY, key_name TEXT NOT NULL, key_type INTEGER NOT NULL DEFAULT 0,
  value_type INTEGER NOT NULL DEFAULT 0, key_value TEXT NOT NULL DEFAULT '', expires INTEGER NOT NULL DEFAULT 0);
INSERT INTO version (table_name, table_version) VALUES ('htable_pw', 2);
INSERT INTO subscriber (username, domain, password, ha1, ha1b)
  SELECT 'user' || lpad(i::text, 6, '0'), 'lab.test', '$password', '', '' FROM generate_series(0, $users - 1) i;
INSERT INTO htable_pw (key_name, key_value) SELECT username, password FROM subscriber;
SQL
