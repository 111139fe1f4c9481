// lettuce-core: Futures, reactive streams, scripts, transactions and pub/sub.
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class LettuceClient {
    public static void main(String[] args) throws Exception {
        var client = RedisClient.create(System.getenv("REDIS_URL"));
        var connection = client.connect();
        var async = connection.async();
        var sync = connection.sync();
        var futures = new ArrayList<java.util.concurrent.Future<Long>>();
        for (int i = 0; i < 200; i++) futures.add(async.incr("count"));
        for (var future : futures) future.get(10, TimeUnit.SECONDS);
        System.out.println("count " + sync.get("count"));
        System.out.println(connection.reactive().incr("count").then(connection.reactive().get("count")).block());
        String script = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
        System.out.println(sync.<Object>eval(script, ScriptOutputType.MULTI, new String[] {"n"}, "v"));
        sync.hset("h", Map.of("a", "1", "b", "2"));
        System.out.println(new TreeMap<>(sync.hgetall("h")));
        sync.multi();
        async.set("a", "1");
        async.incr("a");
        System.out.println(sync.exec().size() + " " + sync.get("a"));
        for (int i = 0; i < 50; i++) sync.set("k:" + i, "v");
        int scanned = 0;
        var scan = ScanIterator.scan(sync, io.lettuce.core.ScanArgs.Builder.matches("k:*"));
        while (scan.hasNext()) { scan.next(); scanned++; }
        System.out.println(scanned >= 50);
        KeyValue<String, String> popped = null;
        sync.lpush("l", "1");
        popped = sync.blpop(5, "l");
        System.out.println(popped);
        var got = new LinkedBlockingQueue<String>();
        var listener = client.connectPubSub();
        listener.addListener(new RedisPubSubAdapter<String, String>() {
            public void message(String channel, String text) { got.add(channel + " " + text); }
        });
        listener.sync().subscribe("news");
        sync.publish("news", "hello");
        System.out.println(got.poll(10, TimeUnit.SECONDS));
        client.shutdown();
    }
}
