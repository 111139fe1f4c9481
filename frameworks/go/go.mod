module stillframe.test/programs

go 1.26.8

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redis/cache/v9 v9.0.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/go-redsync/redsync/v4 v4.13.0
	github.com/gomodule/redigo v1.9.3
	github.com/hibiken/asynq v0.25.1
	github.com/mediocregopher/radix/v4 v4.1.4
	github.com/redis/go-redis/v9 v9.7.3
	github.com/redis/rueidis v1.0.79
	github.com/ulule/limiter/v3 v3.11.2
)
