#!/usr/bin/env bash
# redis-benchmark: depths 1 and 16, values of 100 B, 1 KiB and 100 KiB. What it stored is there with its length.
set -euo pipefail
# shellcheck source=check.sh
. "$(dirname "$0")/check.sh"

most=${ZONEWEAVE_BENCHMARK_REQUESTS:-50000}

for depth in 1 16; do
    for bytes in 100 1024 102400; do
        same flushall "$(cli flushall)" OK
        requests=$((bytes > 10000 ? 2000 : most))
        keys=$((requests / 10))
        # The last line of each test has its rate; an error ends the program with exit code 1.
        rates=$(redis-benchmark -p "$redis_port" -t set,get -n "$requests" -r "$keys" -d "$bytes" -P "$depth" -c 16 --csv)
        for test in SET GET; do
            same "$test -P $depth -d $bytes" "$(echo "$rates" | grep -c "^\"$test\"")" 1
        done
        count=$(cli dbsize)
        same "keys of -P $depth -d $bytes" $((count > keys * 95 / 100 && count <= keys)) 1
        some=$(cli randomkey)
        same "length of $some" "$(cli strlen "$some")" "$bytes"
        said "-P $depth -d $bytes: $count objects of $keys names, each of $bytes bytes"
    done
done
more=$(redis-benchmark -p "$redis_port" -3 -t ping,incr,mset -n $((most * 2 / 5)) -r 1000 -P 16 -c 50 --csv)
for test in PING_INLINE PING_MBULK INCR MSET; do
    holds "with RESP3" "$more" "\"$test"
done
said "ping, incr, mset by RESP3"
same flushall "$(cli flushall)" OK
