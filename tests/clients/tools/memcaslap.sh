#!/usr/bin/env bash
# memcaslap of libmemcached: 90 % gets and 10 % sets, all values that are read compared, with one key and with many at once.
set -euo pipefail
# shellcheck source=check.sh
. "$(dirname "$0")/check.sh"

seconds=${ZONEWEAVE_MEMCASLAP_SECONDS:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# load NAME SHORTEST LONGEST [OPTION...]: values between two lengths.
load() {
    local name=$1 shortest=$2 longest=$3
    shift 3
    printf 'key\n16 32 1\nvalue\n%s %s 1\ncmd\n0 0.1\n1 0.9\n' "$shortest" "$longest" >"$scratch/plan"
    local report
    report=$(timeout 120 memcaslap -s "127.0.0.1:$memcached_port" -F "$scratch/plan" -T 1 -c 16 -w 1k -v 1 -t "${seconds}s" "$@" 2>&1)
    # A miss is allowed to a cache; a wrong value is not.
    holds "$name" "$report" "verify_failed: 0"
    same "gets of $name" "$(echo "$report" | awk '/^cmd_get:/ { print ($2 > 100) }')" 1
    said "$name: $(echo "$report" | awk '/^cmd_get:/ { gets = $2 } /^get_misses:/ { misses = $2 } /^cmd_set:/ { sets = $2 }
        END { print sets " sets, " gets " gets, " misses " misses" }'), none with another value"
}

load "values of 100 to 1000 bytes" 100 1000
load "values of 100 to 200 KB" 100000 200000
load "gets of 20 keys at once" 100 1000 -d 20
