// redisson: A lock, fair lock, semaphore and latch contended by eight; rate limiter, maps, queues.
import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RateType;
import org.redisson.config.Config;

public class RedissonObjects {
    interface Step { void run() throws Exception; }

    static void eight(Step step) throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        for (int i = 0; i < 8; i++) threads.submit(() -> { step.run(); return null; });
        threads.shutdown();
        threads.awaitTermination(40, TimeUnit.SECONDS);
    }

    public static void main(String[] args) throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("REDIS_PORT"));
        var redisson = Redisson.create(config);
        var count = redisson.<Integer>getBucket("count");
        count.set(0);
        for (var lock : new org.redisson.api.RLock[] {redisson.getLock("plain"), redisson.getFairLock("fair")}) {
            eight(() -> {
                for (int i = 0; i < 10; i++) {
                    lock.lock(20, TimeUnit.SECONDS);
                    count.set(count.get() + 1);
                    lock.unlock();
                }
            });
            System.out.println(lock.getName() + " " + count.get() + " " + lock.isLocked());
        }
        var semaphore = redisson.getSemaphore("semaphore");
        semaphore.trySetPermits(3);
        eight(() -> { semaphore.acquire(); Thread.sleep(10); semaphore.release(); });
        System.out.println("permits " + semaphore.availablePermits());
        var latch = redisson.getCountDownLatch("latch");
        latch.trySetCount(8);
        eight(latch::countDown);
        System.out.println("latch " + latch.await(10, TimeUnit.SECONDS));
        var limiter = redisson.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, 5, Duration.ofHours(1));
        int let = 0;
        for (int i = 0; i < 8; i++) let += limiter.tryAcquire() ? 1 : 0;
        System.out.println("let " + let);
        var map = redisson.<String, Integer>getMapCache("map");
        map.put("short", 1, 100, TimeUnit.MILLISECONDS);
        map.put("long", 2, 1, TimeUnit.HOURS);
        Thread.sleep(300);
        System.out.println(map.get("short") + " " + map.get("long"));
        var queue = redisson.<String>getBlockingQueue("queue");
        var delayed = redisson.getDelayedQueue(queue);
        delayed.offer("later", 300, TimeUnit.MILLISECONDS);
        System.out.println(queue.size() + " " + queue.poll(20, TimeUnit.SECONDS));
        var filter = redisson.<String>getBloomFilter("filter");
        filter.tryInit(1000, 0.01);
        filter.add("a");
        System.out.println(filter.contains("a") + " " + filter.contains("b"));
        var scores = redisson.<String>getScoredSortedSet("scores");
        scores.add(1, "x");
        scores.add(3, "y");
        System.out.println(scores.addScore("x", 5) + " " + scores.rank("y"));
        redisson.shutdown();
    }
}
