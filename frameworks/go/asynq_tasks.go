// hibiken/asynq: Tasks with retries, a delay, priorities, a unique task, a group and an archive.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

func init() { programs["asynq_tasks"] = asynqTasks }

func asynqTasks() {
	at := asynq.RedisClientOpt{Addr: address()}
	client := asynq.NewClient(at)
	inspector := asynq.NewInspector(at)
	var lock sync.Mutex
	done := map[string]int{}
	enough := make(chan string, 100)
	server := asynq.NewServer(at, asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel, Queues: map[string]int{"critical": 6, "default": 1},
		DelayedTaskCheckInterval: 200 * time.Millisecond, GroupGracePeriod: time.Second,
		GroupMaxSize:   5,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
		GroupAggregator: asynq.GroupAggregatorFunc(func(g string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("grouped", []byte(fmt.Sprint(g, " of ", len(tasks))))
		}),
	})
	handle := func(_ context.Context, task *asynq.Task) error {
		lock.Lock()
		defer lock.Unlock()
		name := task.Type() + " " + string(task.Payload())
		done[name]++
		if task.Type() == "stubborn" && done[name] < 3 || task.Type() == "fails" {
			return errors.New("not yet")
		}
		enough <- name
		return nil
	}
	enqueue := func(kind, payload string, options ...asynq.Option) {
		must(client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...))
	}
	for i := range 5 {
		enqueue("plain", fmt.Sprint(i), asynq.Queue("critical"))
		enqueue("member", fmt.Sprint(i), asynq.Group("letters"))
	}
	enqueue("stubborn", "", asynq.MaxRetry(5))
	enqueue("fails", "", asynq.MaxRetry(0))
	enqueue("later", "", asynq.ProcessIn(time.Second))
	enqueue("only", "", asynq.Unique(time.Minute))
	_, err := client.Enqueue(asynq.NewTask("only", []byte{}), asynq.Unique(time.Minute))
	fmt.Println("twice:", errors.Is(err, asynq.ErrDuplicateTask))
	fmt.Println("scheduled", len(must(inspector.ListScheduledTasks("default"))))
	check(server.Start(asynq.HandlerFunc(handle)))
	for range 9 {
		select {
		case <-enough:
		case <-time.After(30 * time.Second):
			panic(fmt.Sprint("no more tasks after ", done))
		}
	}
	time.Sleep(time.Second)
	lock.Lock()
	fmt.Println(done)
	lock.Unlock()
	server.Shutdown()
	info := must(inspector.GetQueueInfo("default"))
	fmt.Println(info.Archived, info.Pending, info.Scheduled, info.Failed)
	fmt.Println(must(inspector.DeleteAllArchivedTasks("default")))
}
