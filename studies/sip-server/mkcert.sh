#!/bin/sh
# mkcert.sh ADDRESS: a key and a certificate of this server's own, for TLS.
set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
  -addext "subjectAltName=IP:$1" -keyout key.pem -out certificate.pem 2>/dev/null
