// ulule/limiter: A fixed window, contended by eight clients; peek and reset.
package main

import (
	"fmt"
	"sync/atomic"

	"github.com/ulule/limiter/v3"
	store "github.com/ulule/limiter/v3/drivers/store/redis"
)

func init() { programs["ulule_limiter"] = ululeLimiter }

func ululeLimiter() {
	rate := must(limiter.NewRateFromFormatted("20-H"))
	limits := limiter.New(must(store.NewStore(connect())), rate)
	var reached atomic.Int64
	eight(func() {
		for range 5 {
			if must(limits.Get(ctx, "all")).Reached {
				reached.Add(1)
			}
		}
	})
	fmt.Println(reached.Load(), must(limits.Peek(ctx, "all")).Remaining)
	fmt.Println(must(limits.Reset(ctx, "all")).Remaining, must(limits.Increment(ctx, "all", 5)).Remaining)
}
