// go-redis by RESP2 and RESP3: HELLO and CLIENT SETINFO, pipelines with MULTI, SCAN, timeouts, contexts, pools.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"
	"time"

	"clients/check"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{
			Addr: check.Place(1), Protocol: protocol, ClientName: "tried", DB: 4, PoolSize: 8, IdentitySuffix: "x",
		})
		check.Done("FLUSHALL", client.FlushAll(ctx).Err())
		handshake(client, protocol)
		values(client)
		pipelines(client)
		scans(client)
		pools(client)
		timeouts(protocol)
		check.Done("close", client.Close())
	}
}

func handshake(client *redis.Client, protocol int) {
	info, err := client.ClientInfo(ctx).Result()
	check.Done("CLIENT INFO", err)
	check.Same("CLIENT INFO", []any{info.Name, info.Resp, info.DB}, []any{"tried", protocol, 4})
	hello := client.Do(ctx, "hello").Val()
	if flat, isFlat := hello.([]any); isFlat {
		pairs := map[any]any{}
		for index := 0; index < len(flat); index += 2 {
			pairs[flat[index]] = flat[index+1]
		}
		hello = pairs
	}
	said := hello.(map[any]any)
	check.Same("HELLO", []any{said["server"], said["version"], said["proto"], said["mode"], said["role"]},
		[]any{"redis", "7.0.15", int64(protocol), "standalone", "master"})
	config, err := client.ConfigGet(ctx, "databases").Result()
	check.Done("CONFIG GET", err)
	check.Same("CONFIG GET", config, map[string]string{"databases": "16"})
	// The client goes on without it where a server is too old for it; this one is not.
	check.Done("SETINFO", client.Do(ctx, "client", "setinfo", "lib-name", "tried").Err())
	check.Said(fmt.Sprintf("handshake by RESP%d: HELLO, SETINFO, CLIENT INFO, CONFIG GET", protocol))
}

func values(client *redis.Client) {
	check.Same("nothing", client.Get(ctx, "none").Err(), redis.Nil)
	check.Done("SET", client.Set(ctx, "s", "old", time.Minute).Err())
	isNew, err := client.SetNX(ctx, "s", "new", 0).Result()
	check.Done("SETNX", err)
	old, err := client.SetArgs(ctx, "s", "new", redis.SetArgs{Get: true, KeepTTL: true}).Result()
	check.Done("SET GET KEEPTTL", err)
	check.Same("SETNX, SET GET", []any{isNew, old, client.TTL(ctx, "s").Val()}, []any{false, "old", time.Minute})
	check.Same("GETEX", client.GetEx(ctx, "s", 20*time.Millisecond).Val(), "new")
	check.Soon("expiry", func() bool { return client.Exists(ctx, "s").Val() == 0 })
	check.Done("MSET", client.MSet(ctx, "m1", 1, "m2", "zwei").Err())
	check.Same("MGET", client.MGet(ctx, "m1", "m2", "m3").Val(), []any{"1", "zwei", nil})
	check.Same("INCR", []any{client.IncrBy(ctx, "m1", 41).Val(), client.IncrByFloat(ctx, "m1", 0.5).Val()}, []any{int64(42), 42.5})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	check.Done("SET of a MiB", client.Set(ctx, "large", large, 0).Err())
	check.Same("a MiB", client.Get(ctx, "large").Val() == large, true)
	check.Same("GETRANGE", client.GetRange(ctx, "large", 1<<20-4, -1).Val(), "cdef")
	check.Refused("lists", client.LPush(ctx, "l", 1).Err(), "unknown command 'lpush'")
	check.Refused("a word", client.Incr(ctx, "large").Err(), "not an integer")
	check.Said("SET NX GET KEEPTTL, GETEX, MGET, INCRBYFLOAT, a MiB, errors")
}

func pipelines(client *redis.Client) {
	answers, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for index := range 5000 {
			pipe.Set(ctx, fmt.Sprint("many", index), index, 0)
			pipe.Get(ctx, fmt.Sprint("many", index))
		}
		return nil
	})
	check.Done("pipeline", err)
	for index := range 5000 {
		check.Same("its answer", answers[2*index+1].(*redis.StringCmd).Val(), fmt.Sprint(index))
	}
	answers, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "p", "x", 0)
		pipe.Incr(ctx, "p")
		pipe.Get(ctx, "p")
		return nil
	})
	check.Refused("an error in MULTI", err, "not an integer")
	check.Same("what is behind it", answers[2].(*redis.StringCmd).Val(), "x")
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "p", "y", 0)
		pipe.Do(ctx, "nosuch")
		return nil
	})
	check.Refused("EXECABORT", err, "EXECABORT")
	check.Same("nothing of it was done", client.Get(ctx, "p").Val(), "x")
	check.Refused("WATCH", client.Watch(ctx, func(*redis.Tx) error { return nil }, "p"), "WATCH")
	check.Said("pipelines of 10,000 commands, MULTI, an error within, EXECABORT, WATCH refused")
}

func scans(client *redis.Client) {
	found := map[string]bool{}
	scan := client.ScanType(ctx, 0, "many*", 300, "string").Iterator()
	for scan.Next(ctx) {
		found[scan.Val()] = true
	}
	check.Done("SCAN", scan.Err())
	var keys []string
	for key := range found {
		keys = append(keys, key)
	}
	present := client.Keys(ctx, "many*").Val()
	sort.Strings(keys)
	sort.Strings(present)
	check.Same("SCAN", keys, present)
	check.Said(fmt.Sprintf("SCAN: %d keys, each as KEYS says", len(keys)))
}

func pools(client *redis.Client) {
	check.Done("SET", client.Set(ctx, "count", 0, 0).Err())
	var group sync.WaitGroup
	for range 32 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 50 {
				check.Done("INCR", client.Incr(ctx, "count").Err())
			}
		}()
	}
	group.Wait()
	check.Same("increments", client.Get(ctx, "count").Val(), "1600")
	check.Said("1,600 increments over a pool of eight connections")
}

func timeouts(protocol int) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check.Done("listen", err)
	// One that nobody holds is closed by the collector, and then refuses instead of being silent.
	defer silent.Close()
	deaf := redis.NewClient(&redis.Options{
		Addr: silent.Addr().String(), Protocol: protocol, ReadTimeout: 50 * time.Millisecond, MaxRetries: -1,
	})
	var late net.Error
	check.Same("a silent server", errors.As(deaf.Get(ctx, "a").Err(), &late) && late.Timeout(), true)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	client := redis.NewClient(&redis.Options{Addr: check.Place(1), Protocol: protocol, ContextTimeoutEnabled: true})
	check.Same("a context that is over", errors.Is(client.Get(cancelled, "a").Err(), context.Canceled), true)
	check.Same("after it", client.Set(ctx, "a", "b", 0).Val(), "OK")
	check.Said("timeouts, contexts that are over")
}
