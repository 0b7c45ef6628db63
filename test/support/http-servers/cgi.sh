#!/bin/sh
# A CGI program for Apache, lighttpd and others. Answers with "taken " and what it was told, as JSON.
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
# A program that leaves its input unread is cut off by some.
[ -n "$CONTENT_LENGTH" ] && head -c "$CONTENT_LENGTH" >/dev/null
told=$(
  printf 'taken {"method":%s,"target":%s,"path":%s,"headers":[' \
    "$(quoted "$REQUEST_METHOD")" "$(quoted "$REQUEST_URI")" "$(quoted "${PATH_INFO:-$SCRIPT_NAME}")"
  env | LC_ALL=C sed -n 's/^HTTP_\([A-Z0-9_]*\)=\(.*\)$/\1 \2/p' | (
    comma=
    while read -r name value; do
      printf '%s[%s,%s]' "$comma" "$(quoted "$(printf '%s' "$name" | tr 'A-Z' 'a-z')")" "$(quoted "$value")"
      comma=,
    done
  )
  printf ']}'
)
# In one piece: chunks would cut it.
printf 'Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s\n' $((${#told} + 1)) "$told"
