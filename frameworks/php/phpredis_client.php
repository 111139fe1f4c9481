<?php
// php-redis: Pipelines, transactions, scripts, scans and serialised values.
$redis = new Redis();
$redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
$redis->set('o', ['a' => [1, 2], 'b' => null], 60);
echo json_encode([$redis->get('o'), $redis->ttl('o') > 50]), "\n";
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_NONE);
echo json_encode($redis->multi(Redis::PIPELINE)->incr('n')->lPush('l', 'a', 'b')->lRange('l', 0, -1)->exec()), "\n";
echo json_encode($redis->multi()->hMSet('h', ['a' => 1, 'b' => 2])->hGetAll('h')->exec()), "\n";
$sha = $redis->script('load', 'return {KEYS[1], ARGV[1], redis.call("INCR", KEYS[1])}');
echo json_encode([$redis->evalSha($sha, ['n', 'x'], 1), $redis->eval('return redis.call("LLEN", "n")'), $redis->getLastError()]), "\n";
for ($i = 0; $i < 50; $i++) $redis->set("k:$i", $i);
$redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$cursor = null;
$seen = [];
while ($keys = $redis->scan($cursor, 'k:*')) foreach ($keys as $key) $seen[$key] = 1;
echo count($seen), "\n";
echo json_encode([$redis->zAdd('z', 1.5, 'x', 2, 'y'), $redis->zRange('z', 0, -1, true), $redis->set('once', 1, ['nx', 'px' => 5000]), $redis->set('once', 2, ['nx'])]), "\n";
