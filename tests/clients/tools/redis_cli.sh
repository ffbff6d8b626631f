#!/usr/bin/env bash
# redis-cli: pipe mode, --scan, --bigkeys, --memkeys, RESP3, --latency, --stat, values from standard input, and MULTI by hand.
set -euo pipefail
# shellcheck source=check.sh
. "$(dirname "$0")/check.sh"

same flushall "$(cli flushall)" OK

# Mass insertion: commands as the protocol has them, answers counted by the client, which ends with an ECHO of its own.
commands() {
    for index in $(seq 1 20000); do
        key=key:$index
        printf '*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n' ${#key} "$key" ${#index} "$index"
    done
}
holds "pipe mode" "$(commands | cli --pipe)" "errors: 0, replies: 20000"
count=$(cli dbsize)
same "almost all are there" $((count > 19900)) 1
said "pipe mode: 20,000 commands, $count objects"

same "--scan" "$(cli --scan | sort -u | wc -l)" "$count"
same "--scan with a pattern" "$(cli --scan --pattern 'key:1999?' | sort)" "$(cli keys 'key:1999?' | sort)"
said "--scan: as many keys as DBSIZE says"

head -c 300000 /dev/zero | tr '\0' v | cli -x set large >/dev/null
same "a value from standard input" "$(cli strlen large)" 300000
holds "--bigkeys" "$(cli --bigkeys)" "'\"large\"' has 300000 bytes"
holds "--memkeys" "$(cli --memkeys)" "\"large\""
said "-x, --bigkeys, --memkeys"

same "RESP3" "$(cli -3 --no-raw config get databases)" '1# "databases" => "16"'
same "RESP2" "$(cli -2 --no-raw config get databases)" '1) "databases"
2) "16"'
same "nothing" "$(cli -3 --no-raw get none)" "(nil)"
same "csv" "$(cli --csv mget key:1 none)" '"1",NULL'
same "json" "$(cli --json config get databases)" '{"databases":"16"}'
said "-2, -3, --csv, --json"

multi=$(printf 'MULTI\nSET m 1\nINCRBY m 4\nEXEC\n' | cli)
same "MULTI from standard input" "$multi" 'OK
QUEUED
QUEUED
OK
5'
holds "an error" "$(cli lpush l x 2>&1)" "ERR unknown command 'lpush'"
same "an error's exit code with -e" "$(cli -e lpush l x >/dev/null 2>&1; echo $?)" 1
said "MULTI, errors, -e"

# Samples of a second; the client prints minimum, maximum, average and their number.
latency=$(timeout 10 redis-cli -p "$redis_port" --raw --latency -i 1 </dev/null | head -n 1 || true)
same "samples of --latency" "$(echo "$latency" | awk '{ print (NF >= 4 && $4 > 0) }')" 1
holds "--stat" "$(timeout 2 stdbuf -oL redis-cli -p "$redis_port" --stat -i 0.2 || true)" "keys"
said "--latency: $(echo "$latency" | awk '{ print $4 }') samples; --stat"
same flushall "$(cli flushall)" OK
