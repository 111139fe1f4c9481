// group redis/go-redis: ClusterClient counts with eight goroutines while the leader is killed.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func init() { programs["group_go_redis"] = groupGoRedis }

func groupGoRedis() {
	var addresses []string
	for _, port := range strings.Split(os.Getenv("GROUP_PORTS"), ",") {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	seconds := must(strconv.ParseFloat(os.Getenv("GROUP_SECONDS"), 64))
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ReadTimeout: 2 * time.Second})
	check(client.Set(ctx, "begun", 1, 0).Err())
	start := time.Now()
	passed := func() float64 { return time.Since(start).Seconds() }
	fmt.Println("counting")
	var all sync.WaitGroup
	lines := make([]string, 8)
	for i := range lines {
		all.Go(func() {
			key := fmt.Sprintf("n:%d", i)
			var last int64
			acks, late := 0, 0
			for passed() < seconds {
				value, err := client.Incr(ctx, key).Result()
				if err != nil { // what became of it is not known
					fmt.Fprintln(os.Stderr, key, err)
					time.Sleep(50 * time.Millisecond)
					continue
				}
				if value <= last {
					panic(fmt.Sprint(key, ": ", value, " after ", last))
				}
				last = value
				acks++
				if passed() > seconds-2 {
					late++
				}
			}
			lines[i] = fmt.Sprintln(key, last, acks, late)
		})
	}
	all.Wait()
	fmt.Print(strings.Join(lines, ""))
}
