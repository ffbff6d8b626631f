# What the programs beside this one share: where the cache is, and comparisons that end with exit code 1.
# shellcheck shell=bash

redis_port=$1
memcached_port=$2

# same WHAT GOT WANTED: ends the program unless both are the same.
same() {
    if [ "$2" != "$3" ]; then
        printf '%s: %.300s, and not %.300s\n' "$1" "$2" "$3"
        exit 1
    fi
}

# holds WHAT TEXT PART: ends the program unless the text has this part.
holds() {
    case $2 in
        *"$3"*) ;;
        *)
            printf '%s: no %s in %.2000s\n' "$1" "$3" "$2"
            exit 1
            ;;
    esac
}

# Says what was compared.
said() {
    echo "ok: $*"
}

cli() {
    redis-cli -p "$redis_port" "$@"
}
