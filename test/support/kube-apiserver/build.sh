#!/usr/bin/env bash
# Builds Kubernetes' own API server once, outside the checkout, into a folder named after these sources: six minutes of
# CPU and 2 GB of memory, with a warm build cache seconds. Prints where it is; says on a terminal how far it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
# Where Go's own archive puts it, for shells that were not told.
export PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || { echo 'Go is not installed' >&2; exit 69; }

name=kube-apiserver-$(cat main.go go.mod go.sum | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/sallyport-tests/$name
if [ ! -x "$folder/kube-apiserver" ]; then
  version=$(sed -nE 's|^\tk8s.io/kubernetes (v[0-9.]+)$|\1|p' go.mod)
  draft=$folder.$$
  mkdir -p "$draft"
  trap 'rm -rf "$draft"' EXIT
  echo "building kube-apiserver $version" >&2
  export CGO_ENABLED=0 GOFLAGS=-mod=readonly
  all=$(go list -deps . | wc -l)
  flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
  # With -v every package that is compiled is a line on stderr; the last lines are kept in case it fails.
  if ! nice go build -v -trimpath -ldflags "$flags" -o "$draft/kube-apiserver" . 2>&1 | tee "$draft/log" |
    if [ -t 2 ]; then
      awk -v all="$all" '{ printf "\r%d of at most %d packages ", NR, all; fflush() } END { print "" }' >&2
    else
      cat >/dev/null
    fi; then
    tail -5 "$draft/log" >&2
    exit 1
  fi
  rm -f "$draft/log"
  # Somebody else may have been faster; then theirs is as good.
  mv -T "$draft" "$folder" 2>/dev/null || [ -x "$folder/kube-apiserver" ]
fi
echo "$folder/kube-apiserver"
