// gomemcache: conditional stores, cas, many keys at once, flags, expiry, errors.
package main

import (
	"bytes"
	"fmt"
	"sync"

	"clients/check"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	client := memcache.New(check.Place(2))
	client.MaxIdleConns = 8
	check.Done("flush_all", client.FlushAll())
	stores(client)
	tokens(client)
	many(client)
	counters(client)
	check.Done("version", client.Ping())
	check.Done("delete_all", client.DeleteAll())
	_, err := client.Get("a")
	check.Same("after it", err, memcache.ErrCacheMiss)
	check.Said("flush_all, version")
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func value(client *memcache.Client, key string) string {
	found, err := client.Get(key)
	check.Done("get", err)
	return string(found.Value)
}

func stores(client *memcache.Client) {
	_, err := client.Get("none")
	check.Same("nothing", err, memcache.ErrCacheMiss)
	check.Done("set", client.Set(&memcache.Item{Key: "a", Value: []byte("1"), Flags: 77, Expiration: 100}))
	found, err := client.Get("a")
	check.Done("get", err)
	check.Same("value and flags", []any{string(found.Value), found.Flags}, []any{"1", uint32(77)})
	check.Same("add", []any{client.Add(item("a", "2")), client.Add(item("b", "2"))}, []any{memcache.ErrNotStored, error(nil)})
	check.Same("replace", []any{client.Replace(item("b", "3")), client.Replace(item("c", "3"))},
		[]any{error(nil), memcache.ErrNotStored})
	check.Done("append", client.Append(item("b", "4")))
	check.Done("prepend", client.Prepend(item("b", "2")))
	check.Same("append, prepend", value(client, "b"), "234")
	check.Same("delete", []any{client.Delete("b"), client.Delete("b")}, []any{error(nil), memcache.ErrCacheMiss})
	check.Same("touch", []any{client.Touch("a", 50), client.Touch("b", 50)}, []any{error(nil), memcache.ErrCacheMiss})
	check.Done("set", client.Set(&memcache.Item{Key: "short", Value: []byte("x"), Expiration: 1}))
	check.Soon("expiry", func() bool { _, err := client.Get("short"); return err == memcache.ErrCacheMiss })
	large := bytes.Repeat([]byte("0123456789abcdef"), 60_000)
	check.Done("set of a MB", client.Set(&memcache.Item{Key: "large", Value: large}))
	check.Same("a MB", value(client, "large") == string(large), true)
	check.Same("a key with a blank", client.Set(item("a b", "x")), memcache.ErrMalformedKey)
	check.Said("set add replace append prepend delete touch, flags, expiry, a MB")
}

func tokens(client *memcache.Client) {
	check.Done("set", client.Set(item("t", "old")))
	first, err := client.Get("t")
	check.Done("gets", err)
	second, err := client.Get("t")
	check.Done("gets", err)
	first.Value, second.Value = []byte("new"), []byte("other")
	check.Done("cas", client.CompareAndSwap(first))
	check.Same("cas by an old token", client.CompareAndSwap(second), memcache.ErrCASConflict)
	check.Same("after it", value(client, "t"), "new")
	check.Done("delete", client.Delete("t"))
	check.Same("cas of nothing", client.CompareAndSwap(first), memcache.ErrCacheMiss)
	found, err := client.GetAndTouch("a", 100)
	check.Done("gat", err)
	check.Same("gat", string(found.Value), "1")
	check.Said("cas, its conflicts, gat")
}

func many(client *memcache.Client) {
	var keys []string
	for index := range 500 {
		keys = append(keys, fmt.Sprint("many", index))
		check.Done("set", client.Set(item(keys[index], fmt.Sprint(index))))
	}
	found, err := client.GetMulti(append(keys, "none"))
	check.Done("get of many", err)
	check.Same("almost all are there", len(found) > 490, true)
	for key, item := range found {
		check.Same("its value", key, "many"+string(item.Value))
	}
	check.Said(fmt.Sprintf("get of 501 keys at once, %d are there", len(found)))
}

func counters(client *memcache.Client) {
	check.Done("set", client.Set(item("count", "0")))
	var group sync.WaitGroup
	for range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 100 {
				_, err := client.Increment("count", 1)
				check.Done("incr", err)
			}
		}()
	}
	group.Wait()
	check.Same("increments", value(client, "count"), "1600")
	left, err := client.Decrement("count", 1_000_000)
	check.Done("decr", err)
	check.Same("decr ends at", left, uint64(0))
	_, err = client.Increment("none", 1)
	check.Same("incr of nothing", err, memcache.ErrCacheMiss)
	_, err = client.Increment("large", 1)
	check.Refused("incr of a word", err, "non-numeric")
	check.Said("1,600 increments by 16 goroutines, decr, errors")
}
