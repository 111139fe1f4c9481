// go-redis/cache: Objects, a value that eight clients make once, and a local cache.
package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-redis/cache/v9"
)

func init() { programs["gocache_values"] = gocacheValues }

func gocacheValues() {
	values := cache.New(&cache.Options{Redis: connect(), LocalCache: cache.NewTinyLFU(10, time.Minute)})
	type object struct {
		Name string
		Tags []int
	}
	check(values.Set(&cache.Item{Ctx: ctx, Key: "o", Value: object{"anna", []int{1, 2}}, TTL: time.Minute}))
	var got object
	check(values.Get(ctx, "o", &got))
	var made atomic.Int64
	eight(func() {
		var value int
		check(values.Once(&cache.Item{Key: "once", Value: &value, TTL: time.Minute, Do: func(*cache.Item) (any, error) {
			time.Sleep(50 * time.Millisecond)
			return int(made.Add(1)), nil
		}}))
	})
	fmt.Println(got, made.Load(), values.Exists(ctx, "o"))
	check(values.Delete(ctx, "o"))
	fmt.Println(values.Get(ctx, "o", &got))
}
