#!/bin/sh
# The mcptest reference plugin in POSIX sh: `echo` returns its params, `ping` returns "pong".
# It needs no other program: it finds the members it knows and copies their text as it stands.

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/../json_text.sh"

answer() { printf '{"id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"id":%s,"error":{"code":%s,"message":"%s"}}\n' "$id" "$1" "$2"; }

while IFS= read -r line || [ -n "$line" ]; do
    if ! members "$line" id method params || [ -z "$id" ] || [ -z "$method" ]; then
        id=null
        refuse -32700 'not a request'
        continue
    fi
    case $method in
    '"echo"') if [ -n "$params" ]; then answer "$params"; else refuse -32602 'echo needs params'; fi ;;
    '"ping"') answer '"pong"' ;;
    *) refuse -32601 'no such method' ;;
    esac
done
