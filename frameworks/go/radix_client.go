// mediocregopher/radix: A pool, pipelines, EvalScript, a scanner and pub/sub.
package main

import (
	"fmt"
	"time"

	"github.com/mediocregopher/radix/v4"
)

func init() { programs["radix_client"] = radixClient }

func radixClient() {
	client := must(radix.PoolConfig{}.New(ctx, "tcp", address()))
	script := radix.NewEvalScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	eight(func() {
		for range 25 {
			var count int
			check(client.Do(ctx, script.Cmd(&count, []string{"count"}, "2")))
		}
	})
	var count string
	pipeline := radix.NewPipeline()
	pipeline.Append(radix.Cmd(nil, "HSET", "h", "a", "1"))
	pipeline.Append(radix.Cmd(&count, "GET", "count"))
	check(client.Do(ctx, pipeline))
	fmt.Println(count)
	for i := range 30 {
		check(client.Do(ctx, radix.Cmd(nil, "SET", fmt.Sprint("k:", i), "v")))
	}
	seen, key := map[string]bool{}, ""
	scanner := radix.ScannerConfig{Command: "SCAN", Pattern: "k:*"}.New(client)
	for scanner.Next(ctx, &key) {
		seen[key] = true
	}
	check(scanner.Close())
	fmt.Println(len(seen))
	conn := must(radix.Dial(ctx, "tcp", address()))
	listener := radix.PubSubConfig{}.New(conn)
	check(listener.Subscribe(ctx, "news"))
	// This client loses a message that arrives together with the reply to SUBSCRIBE.
	go func() {
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			check(client.Do(ctx, radix.Cmd(nil, "PUBLISH", "news", "hello")))
		}
	}()
	fmt.Println(string(must(listener.Next(ctx)).Message))
}
