#!/usr/bin/env bash
signed=$(openssl verify -CAfile "${RAY_TLS_CA_CERT:-}" "${RAY_TLS_SERVER_CERT:-}" 2> /dev/null)
echo "$SLURMD_NODENAME: ray $* (GPU ${CUDA_VISIBLE_DEVICES:-none}, auth $RAY_AUTH_MODE, TLS ${signed##*: })" >> "$CALLS"
case "$*" in
    *--head*)
        [[ -n ${NO_HEAD:-} ]] && exit 1
        trap 'echo "$SLURMD_NODENAME: the head ends" >> "$CALLS"; exit' TERM
        sleep infinity & wait ;;
    get-auth-token*) mkdir -p ~/.ray && echo secret > ~/.ray/auth_token ;;
esac
