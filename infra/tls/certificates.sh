#!/usr/bin/env bash
# Make this machine's certificate for TLS, signed by the CA of the cluster. README.md explains its use.
#   certificates.sh CA_FOLDER [NODE_FOLDER [NAME...] [-- COMMAND...]]
# CA_FOLDER holds ca.crt and ca.key; both are made if there are none. NODE_FOLDER gets ca.crt, node.crt
# and node.key. The certificate is valid for the machine's names and addresses, and for each NAME (HOST
# or HOST:PORT). COMMAND replaces this script at the end.
set -euo pipefail
umask 077
ca=${1:?the folder of the CA}
shift
[[ ${1:---} != -- ]] && node=$1 && shift
trap 'echo "certificates.sh: failed in line $LINENO; it needs openssl, and $ca/ca.key" >&2' ERR

sections='[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[node]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid'
new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)

if [[ ! -s $ca/ca.crt ]]; then
    mkdir -p "$ca"
    openssl req -x509 "${new_key[@]}" -config <(echo "$sections") -extensions ca -days 3650 \
        -subj "/CN=CA of a Ray cluster" -keyout "$ca/ca.key" -out "$ca/ca.new" 2> /dev/null
    mv "$ca/ca.new" "$ca/ca.crt"
fi
[[ -n ${node:-} ]] || exit 0

names=(localhost 127.0.0.1 127.0.1.1 ::1 "$(hostname)")
read -ra addresses < <(hostname -I) || true
names+=("${addresses[@]}")
while (($#)) && [[ $1 != -- ]]; do
    [[ $1 == *:*:* ]] && names+=("$1") || names+=("${1%:*}")
    shift
done
for name in "${names[@]}"; do
    [[ $name == *:* || $name =~ ^[0-9.]+$ ]] && kind=IP || kind=DNS
    valid_for=${valid_for:+$valid_for,}$kind:$name
done

mkdir -p "$node"
openssl req "${new_key[@]}" -config <(echo "$sections") -subj "/CN=Ray" \
    -keyout "$node/node.key" -out "$node/node.csr" 2> /dev/null
openssl x509 -req -in "$node/node.csr" -CA "$ca/ca.crt" -CAkey "$ca/ca.key" -days 825 \
    -set_serial "0x$(openssl rand -hex 16)" -out "$node/node.crt" -extensions node \
    -extfile <(printf '%s\nsubjectAltName = %s\n' "$sections" "$valid_for") 2> /dev/null
rm "$node/node.csr"
cp "$ca/ca.crt" "$node/ca.crt"
shift || true
(($# == 0)) || exec "$@"
