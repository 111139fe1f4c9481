// group lettuce-core: RedisClusterClient counts with eight threads while the leader is killed.
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

public class GroupLettuce {
    public static void main(String[] args) throws Exception {
        var seconds = Double.parseDouble(System.getenv("GROUP_SECONDS"));
        var ports = System.getenv("GROUP_PORTS").split(",");
        var nodes = Arrays.stream(ports).map(port -> RedisURI.create("127.0.0.1", Integer.parseInt(port))).toList();
        var client = RedisClusterClient.create(nodes);
        // Applications refresh the topology: by default Lettuce never does.
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
            .enablePeriodicRefresh(Duration.ofMillis(500)).enableAllAdaptiveRefreshTriggers()
            .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200)).build()).build());
        var connection = client.connect();
        connection.setTimeout(Duration.ofSeconds(2));
        var sync = connection.sync();
        sync.set("begun", "1");
        System.out.println("counting");
        long start = System.nanoTime();
        var threads = Executors.newFixedThreadPool(8);
        var tasks = new ArrayList<Callable<String>>();
        for (int i = 0; i < 8; i++) {
            String key = "n:" + i;
            tasks.add(() -> {
                long last = 0, acks = 0, late = 0;
                for (double now = 0; now < seconds; now = (System.nanoTime() - start) / 1e9) {
                    long value;
                    try {
                        value = sync.incr(key);
                    } catch (Exception error) { // what became of it is not known
                        System.err.println(key + " " + error);
                        Thread.sleep(50);
                        continue;
                    }
                    if (value <= last) throw new IllegalStateException(key + ": " + value + " after " + last);
                    last = value;
                    acks++;
                    if ((System.nanoTime() - start) / 1e9 > seconds - 2) late++;
                }
                return key + " " + last + " " + acks + " " + late;
            });
        }
        for (var result : threads.invokeAll(tasks)) System.out.println(result.get());
        threads.shutdown();
        connection.close();
        client.shutdown();
    }
}
