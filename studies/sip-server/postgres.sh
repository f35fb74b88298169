#!/bin/sh
# postgres.sh: PostgreSQL on 127.0.0.1 with its data in memory, in the foreground.
# It does not run as root, and no other user gets into a program's folder. So it has a mount of its own, which nobody else
# sees (the script is started by `unshare -m`) and which goes with it.
set -e
server=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
mount -t tmpfs -o mode=755 tmpfs /mnt
install -d -o postgres -m 700 /mnt/data
cd /mnt
as="setpriv --reuid=postgres --regid=postgres --init-groups --"
$as "$server/initdb" -D /mnt/data -A trust --no-sync -E UTF8 --locale=C >/dev/null
exec $as "$server/postgres" -D /mnt/data -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
  -c fsync=off -c synchronous_commit=off -c max_connections=200
