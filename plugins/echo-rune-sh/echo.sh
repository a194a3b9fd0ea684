#!/bin/sh
# The rune reference plugin in POSIX sh: one process per call; the tool `echo` returns its input.

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/../json_text.sh"

IFS= read -r line || exit 1
printf '%s\n' '{"type":"handshake","manifest":{"plugin_id":"example.echo-sh","plugin_version":"1.0.0","protocol_version":"rterm.plugin.v1","exposed_tools":["echo","fail"],"capabilities":["tool.execute"]}}'

IFS= read -r line || exit 0 # the host wanted to know the manifest only
members "$line" request_id tool_name context input && [ -n "$request_id" ] && [ -n "$input" ] || exit 1
if [ "$tool_name" = '"echo"' ]; then
    printf '{"type":"response","request_id":%s,"status":"ok","output":%s,"metadata":{"context":%s}}\n' \
        "$request_id" "$input" "${context:-null}"
else
    printf '{"type":"response","request_id":%s,"status":"error","error":{"code":"asked_for","message":"you asked for it"}}\n' \
        "$request_id"
fi
while read -r _; do :; done # until the host is done: an early exit can cost it the answer
