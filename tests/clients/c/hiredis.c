/* hiredis: commands with formats and bytes, pipelines, MULTI, RESP3, timeouts, and the parser on answers that come in pieces. */

#include <hiredis/hiredis.h>

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Ends the program unless something holds. */
static void check(const char *what, int holds) {
    if (!holds) {
        printf("%s: not as it should be\n", what);
        exit(1);
    }
}

/* Ends the program unless an answer has this type, and this text where there is one. */
static void is(const char *what, redisReply *reply, int type, const char *text) {
    check("an answer", reply != NULL);
    if (reply->type != type || (text && strncmp(reply->str, text, strlen(text)) != 0)) {
        printf("%s: type %d, %.200s, and not type %d, %s\n", what, reply->type, reply->str ? reply->str : "", type, text ? text : "");
        exit(1);
    }
    freeReplyObject(reply);
}

static long long integer(redisContext *redis, const char *format, ...) {
    va_list words;
    va_start(words, format);
    redisReply *reply = redisvCommand(redis, format, words);
    va_end(words);
    check(format, reply && reply->type == REDIS_REPLY_INTEGER);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static void values(redisContext *redis) {
    is("FLUSHALL", redisCommand(redis, "FLUSHALL"), REDIS_REPLY_STATUS, "OK");
    is("PING", redisCommand(redis, "PING"), REDIS_REPLY_STATUS, "PONG");
    is("nothing", redisCommand(redis, "GET none"), REDIS_REPLY_NIL, NULL);
    is("SET NX PX", redisCommand(redis, "SET %s %s NX PX %d", "s", "a b", 60000), REDIS_REPLY_STATUS, "OK");
    is("SET NX", redisCommand(redis, "SET s x NX"), REDIS_REPLY_NIL, NULL);
    is("GET", redisCommand(redis, "GET s"), REDIS_REPLY_STRING, "a b");
    check("PTTL", integer(redis, "PTTL s") > 50000);
    check("INCRBY", integer(redis, "INCRBY n %lld", 41LL) == 41 && integer(redis, "INCR n") == 42);
    is("an error", redisCommand(redis, "INCR s"), REDIS_REPLY_ERROR, "ERR value is not an integer");
    is("lists", redisCommand(redis, "LPUSH l x"), REDIS_REPLY_ERROR, "ERR unknown command 'LPUSH'");
    size_t size = 3 << 20;
    char *bytes = malloc(size);
    for (size_t at = 0; at < size; at++) bytes[at] = (char)(at * 7 + at / 256);
    is("3 MiB", redisCommand(redis, "SET %b %b", "a\0b", (size_t)3, bytes, size), REDIS_REPLY_STATUS, "OK");
    redisReply *reply = redisCommand(redis, "GET %b", "a\0b", (size_t)3);
    check("the same bytes", reply->len == size && memcmp(reply->str, bytes, size) == 0);
    freeReplyObject(reply);
    free(bytes);
    is("of another key", redisCommand(redis, "GET a"), REDIS_REPLY_NIL, NULL);
    puts("ok: SET NX PX, PTTL, INCRBY, keys and values of any bytes, errors");
}

static void pipelines(redisContext *redis) {
    for (int index = 0; index < 5000; index++) {
        redisAppendCommand(redis, "SET many%d %d", index, index);
        redisAppendCommand(redis, "GET many%d", index);
    }
    for (int index = 0; index < 5000; index++) {
        void *reply = NULL;
        char text[16];
        snprintf(text, sizeof text, "%d", index);
        check("an answer", redisGetReply(redis, &reply) == REDIS_OK);
        is("SET", reply, REDIS_REPLY_STATUS, "OK");
        check("an answer", redisGetReply(redis, &reply) == REDIS_OK);
        is("its answer", reply, REDIS_REPLY_STRING, text);
    }
    is("MULTI", redisCommand(redis, "MULTI"), REDIS_REPLY_STATUS, "OK");
    is("QUEUED", redisCommand(redis, "SET p 1"), REDIS_REPLY_STATUS, "QUEUED");
    is("QUEUED", redisCommand(redis, "INCRBY p 4"), REDIS_REPLY_STATUS, "QUEUED");
    redisReply *reply = redisCommand(redis, "EXEC");
    check("EXEC", reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[1]->integer == 5);
    freeReplyObject(reply);
    is("WATCH", redisCommand(redis, "WATCH p"), REDIS_REPLY_ERROR, "ERR");
    puts("ok: a pipeline of 10,000 commands, MULTI, WATCH refused");
}

static void scan(redisContext *redis) {
    static char is_found[5000];
    char cursor[32] = "0";
    int found = 0;
    do {
        redisReply *reply = redisCommand(redis, "SCAN %s MATCH many* COUNT 300", cursor);
        check("SCAN", reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        for (size_t at = 0; at < reply->element[1]->elements; at++) {
            int index = atoi(reply->element[1]->element[at]->str + strlen("many"));
            check("a key of ours", index >= 0 && index < 5000);
            found += !is_found[index];
            is_found[index] = 1;
        }
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    redisReply *keys = redisCommand(redis, "KEYS many*");
    check("as many as KEYS says", found > 4950 && keys->elements == (size_t)found);
    freeReplyObject(keys);
    printf("ok: SCAN: %d keys, as many as KEYS says\n", found);
}

/* Versions before 1.0 do not know RESP3. */
static void third(redisContext *redis) {
#ifdef REDIS_REPLY_MAP
    redisReply *reply = redisCommand(redis, "HELLO 3 SETNAME tried");
    check("a map", reply->type == REDIS_REPLY_MAP && reply->elements >= 12);
    freeReplyObject(reply);
    is("nothing", redisCommand(redis, "GET none"), REDIS_REPLY_NIL, NULL);
    reply = redisCommand(redis, "CONFIG GET databases");
    check("CONFIG GET", reply->type == REDIS_REPLY_MAP && strcmp(reply->element[1]->str, "16") == 0);
    freeReplyObject(reply);
    puts("ok: RESP3: maps, nulls");
#else
    is("HELLO 4", redisCommand(redis, "HELLO 4"), REDIS_REPLY_ERROR, "NOPROTO");
    puts("ok: this hiredis knows RESP2 only");
#endif
}

/* The server's end of a connection that says nothing is a socket of ours. */
static void timeouts(void) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    check("listen", bind(silent, (void *)&place, size) == 0 && listen(silent, 1) == 0);
    check("listen", getsockname(silent, (void *)&place, &size) == 0);
    redisContext *deaf = redisConnect("127.0.0.1", ntohs(place.sin_port));
    check("a connection", deaf && !deaf->err && redisSetTimeout(deaf, (struct timeval){0, 50000}) == REDIS_OK);
    check("a silent server", redisCommand(deaf, "PING") == NULL && deaf->err == REDIS_ERR_IO);
    redisFree(deaf);
    puts("ok: timeouts");
}

int main(int count, char **words) {
    check("ports", count > 1);
    redisContext *redis = redisConnectWithTimeout("127.0.0.1", atoi(words[1]), (struct timeval){5, 0});
    check("a connection", redis && !redis->err);
    values(redis);
    pipelines(redis);
    scan(redis);
    third(redis);
    redisFree(redis);
    timeouts();
    return 0;
}
