<?php
// php-redis: Sessions with locking: eight processes count in one session and lose no write.
if (getenv('CLIENT')) {
    ini_set('session.save_handler', 'redis');
    ini_set('session.save_path', 'tcp://127.0.0.1:' . getenv('REDIS_PORT'));
    ini_set('session.use_cookies', '0');
    ini_set('redis.session.locking_enabled', '1');
    ini_set('redis.session.lock_retries', '-1');
    ini_set('redis.session.lock_wait_time', '2000');
    session_cache_limiter('');
    for ($i = 0; $i < 20; $i++) {
        session_id('shared');
        session_start();
        $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
        session_write_close();
    }
    if (getenv('CLIENT') === 'last') echo $_SESSION['count'], "\n";
    exit;
}
putenv('CLIENT=one');
$all = [];
for ($i = 0; $i < 8; $i++) $all[] = proc_open([PHP_BINARY, __FILE__], [], $pipes);
foreach ($all as $one) if (proc_close($one) !== 0) exit(1);
putenv('CLIENT=last');
passthru(PHP_BINARY . ' ' . escapeshellarg(__FILE__));
$redis = new Redis();
$redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
echo json_encode($redis->keys('*')), "\n";
