# ruby-redis: Pipelines, a transaction that watches, scripts, scans and pub/sub.
require "redis"
redis = Redis.new(url: ENV["REDIS_URL"])
p redis.pipelined { |pipe| pipe.set("a", 1); pipe.incr("a"); pipe.hset("h", "x", 1, "y", 2); pipe.hgetall("h") }
sha = redis.script(:load, "return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
p redis.evalsha(sha, keys: ["a"], argv: [5])
p(redis.watch("a") { Redis.new(url: ENV["REDIS_URL"]).set("a", 0); redis.multi { |tx| tx.set("a", 9) } })
p redis.get("a"), redis.zadd("z", [[1.5, "x"], [2, "y"]]), redis.zrange("z", 0, -1, with_scores: true)
50.times { |i| redis.set("k:#{i}", i) }
p redis.scan_each(match: "k:*").to_a.uniq.size
heard = nil
listener = Redis.new(url: ENV["REDIS_URL"])
listener.subscribe("news") do |on|
  on.subscribe { redis.publish("news", "hello") }
  on.message { |channel, text| heard = [channel, text]; listener.unsubscribe }
end
p heard
begin redis.lpush("a", 1) rescue puts $!.message end
