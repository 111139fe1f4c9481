// gomodule/redigo: A pool, pipelines, scripts, transactions and pub/sub.
package main

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

func init() { programs["redigo_client"] = redigoClient }

func redigoClient() {
	pool := &redis.Pool{MaxActive: 4, Wait: true, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address()) }}
	script := redis.NewScript(1, "return redis.call('INCR', KEYS[1])")
	eight(func() {
		for range 25 {
			conn := pool.Get()
			must(script.Do(conn, "count"))
			conn.Close()
		}
	})
	conn := pool.Get()
	fmt.Println(must(redis.Int(conn.Do("GET", "count"))))
	conn.Send("MULTI")
	conn.Send("SET", "a", "1")
	conn.Send("INCR", "a")
	conn.Send("LPUSH", "a", "1")
	fmt.Println(must(redis.Values(conn.Do("EXEC")))[1:])
	must(conn.Do("HSET", "h", "name", "anna", "age", 7))
	var person struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	check(redis.ScanStruct(must(redis.Values(conn.Do("HGETALL", "h"))), &person))
	fmt.Println(person)
	listener := redis.PubSubConn{Conn: pool.Get()}
	check(listener.PSubscribe("news.*"))
	listener.Receive()
	conn.Do("PUBLISH", "news.a", "hello")
	message := listener.Receive().(redis.Message)
	fmt.Println(message.Channel, message.Pattern, string(message.Data))
}
