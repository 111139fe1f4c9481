// redis/go-redis: RESP3, pipelines, scripts, WATCH by eight clients, functions and pub/sub.
package main

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

func init() { programs["go_redis_client"] = goRedisClient }

func goRedisClient() {
	client := connect()
	script := redis.NewScript("return {redis.call('INCRBY', KEYS[1], ARGV[1]), KEYS[1], {1, 'two'}}")
	fmt.Println(must(script.Run(ctx, client, []string{"n"}, 5).Slice()), must(script.Run(ctx, client, []string{"n"}, 5).Slice()))
	eight(func() {
		for range 25 {
			for {
				err := client.Watch(ctx, func(tx *redis.Tx) error {
					count, _ := tx.Get(ctx, "count").Int()
					_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "count", count+1, 0).Err()
					})
					return err
				}, "count")
				if err == nil {
					break
				}
				if !errors.Is(err, redis.TxFailedErr) {
					panic(err)
				}
			}
		}
	})
	fmt.Println("count", client.Get(ctx, "count").Val())
	results := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, "h", "a", 1, "b", 2)
		pipe.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "x"}, redis.Z{Score: 2, Member: "y"})
		pipe.HGetAll(ctx, "h")
		pipe.ZRangeWithScores(ctx, "z", 0, -1)
		return nil
	}))
	fmt.Println(results[2].(*redis.MapStringStringCmd).Val(), results[3].(*redis.ZSliceCmd).Val())
	fmt.Println(must(client.FunctionLoadReplace(ctx, "#!lua name=lib\nredis.register_function('half', function(k, a) return a[1] / 2 end)").Result()),
		must(client.FCall(ctx, "half", nil, 42).Result()))
	listener := client.Subscribe(ctx, "news")
	must(listener.Receive(ctx))
	client.Publish(ctx, "news", "hello")
	fmt.Println(must(listener.ReceiveMessage(ctx)).Payload, client.LPush(ctx, "n", 1).Err())
}
