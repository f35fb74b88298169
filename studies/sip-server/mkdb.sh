#!/bin/sh
# mkdb.sh FILE USERS PASSWORD: a database of SQLite with so many users, user000000 and on, of lab.test, who all have this
# password. The tables are those of Debian's kamailio-sqlite-modules.
set -e
file=$1 users=$2 password=$3 tables=/usr/share/kamailio/db_sqlite
cat $tables/standard-create.sql $tables/auth_db-create.sql $tables/usrloc-create.sql | sqlite3 "$file"
sqlite3 "$file" >/dev/null <<SQL
PRAGMA journal_mode=WAL;
CREATE TABLE htable_pw (id INTEGER PRIMARY KEY, key_name TEXT NOT NULL, key_type INTEGER NOT NULL DEFAULT 0,
  value_type INTEGER NOT NULL DEFAULT 0, key_value TEXT NOT NULL DEFAULT '', expires INTEGER NOT NULL DEFAULT 0);
INSERT INTO version (table_name, table_version) VALUES ('htable_pw', 2);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1 < $users)
  INSERT INTO subscriber (username, domain, password, ha1, ha1b)
  SELECT printf('user%06d', i), 'lab.test', '$password', '', '' FROM n;
INSERT INTO htable_pw (key_name, key_value) SELECT username, password FROM subscriber;
COMMIT;
SQL
