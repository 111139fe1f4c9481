<?php
// php-predis: Pipelines, a transaction that watches, a script as a command, and an iterator of keys.
require 'Predis/autoload.php';
class Twice extends Predis\Command\ScriptCommand {
    public function getKeysCount() { return 1; }
    public function getScript() { return 'return {redis.call("INCRBY", KEYS[1], ARGV[1]), ARGV[1] * 2}'; }
}
$client = new Predis\Client(getenv('REDIS_URL'));
$client->getProfile()->defineCommand('twice', 'Twice');
echo json_encode([$client->twice('n', 4), $client->twice('n', 5)]), "\n";
echo json_encode($client->pipeline(function ($pipe) { $pipe->set('a', 1); $pipe->incr('a'); $pipe->mget('a', 'none'); })), "\n";
echo json_encode($client->transaction(['watch' => 'a', 'cas' => true, 'retry' => 3], function ($tx) {
    $value = $tx->get('a');
    $tx->multi();
    $tx->set('a', $value + 10);
    $tx->get('a');
}) === null ? null : $client->get('a')), "\n";
for ($i = 0; $i < 30; $i++) $client->hset('h', "f$i", $i);
$seen = [];
foreach (new Predis\Collection\Iterator\HashKey($client, 'h') as $field => $value) $seen[$field] = $value;
echo count($seen), "\n";
try { $client->lpush('a', [1]); } catch (Predis\Response\ServerException $error) { echo $error->getMessage(), "\n"; }
