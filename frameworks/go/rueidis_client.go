// redis/rueidis: Client-side caching with invalidation, automatic pipelines, scripts, transactions.
package main

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

func init() { programs["rueidis_client"] = rueidisClient }

func rueidisClient() {
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address()}}))
	other := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address()}}))
	eight(func() {
		for range 25 {
			check(client.Do(ctx, client.B().Incr().Key("count").Build()).Error())
		}
	})
	cached := func() (string, bool) {
		result := client.DoCache(ctx, client.B().Get().Key("count").Cache(), time.Minute)
		return must(result.ToString()), result.IsCacheHit()
	}
	fmt.Println(cached())
	fmt.Println(cached())
	check(other.Do(ctx, other.B().Set().Key("count").Value("new").Build()).Error())
	ends := time.Now().Add(10 * time.Second)
	for value, _ := cached(); value != "new" && time.Now().Before(ends); value, _ = cached() {
		time.Sleep(time.Millisecond)
	}
	value, _ := cached()
	fmt.Println("invalidated", value)
	script := rueidis.NewLuaScript("return {KEYS[1], ARGV[1], redis.call('HSET', KEYS[1], 'f', ARGV[1])}")
	for _, message := range must(script.Exec(ctx, client, []string{"h"}, []string{"v"}).ToArray()) {
		fmt.Print(message.String() != "", " ")
	}
	fmt.Println(must(client.Do(ctx, client.B().Hgetall().Key("h").Build()).AsStrMap()))
	results := client.DoMulti(ctx, client.B().Multi().Build(), client.B().Incr().Key("m").Build(), client.B().Exec().Build())
	fmt.Println(len(must(results[2].ToArray())))
}
