// jedis: A pool of eight threads, pipelines, scripts, transactions, functions and pub/sub.
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;

public class JedisClient {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(System.getenv("REDIS_PORT"));
        var threads = Executors.newFixedThreadPool(8);
        try (var pool = new JedisPool("127.0.0.1", port)) {
            var script = "local n = tonumber(redis.call('GET', KEYS[1]) or '0') + ARGV[1] "
                + "redis.call('SET', KEYS[1], n) return n";
            for (int i = 0; i < 8; i++) {
                threads.submit(() -> {
                    try (Jedis jedis = pool.getResource()) {
                        String sha = jedis.scriptLoad(script);
                        for (int j = 0; j < 50; j++) jedis.evalsha(sha, List.of("count"), List.of("2"));
                    }
                });
            }
            threads.shutdown();
            threads.awaitTermination(30, TimeUnit.SECONDS);
            try (Jedis jedis = pool.getResource(); Jedis other = new Jedis("127.0.0.1", port)) {
                System.out.println("count " + jedis.get("count"));
                var pipeline = jedis.pipelined();
                pipeline.hset("h", Map.of("a", "1", "b", "2"));
                var hash = pipeline.hgetAll("h");
                pipeline.zadd("z", Map.of("x", 1.5, "y", 2.0));
                var scores = pipeline.zrangeWithScores("z", 0, -1);
                pipeline.sync();
                System.out.println(new TreeMap<>(hash.get()) + " " + scores.get());
                jedis.watch("count");
                other.set("count", "changed");
                var transaction = jedis.multi();
                transaction.set("count", "lost");
                System.out.println(transaction.exec() + " " + jedis.get("count"));
                jedis.functionLoadReplace("#!lua name=lib\nredis.register_function('half', "
                    + "function(k, a) return a[1] / 2 end)");
                System.out.println(jedis.fcall("half", List.of(), List.of("42")));
                var got = new LinkedBlockingQueue<String>();
                var listener = new JedisPubSub() {
                    public void onSubscribe(String channel, int count) { other.publish(channel, "hello"); }
                    public void onMessage(String channel, String text) { got.add(text); unsubscribe(); }
                };
                jedis.subscribe(listener, "news");
                System.out.println(got.poll(10, TimeUnit.SECONDS));
            }
        }
    }
}
