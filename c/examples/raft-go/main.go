// Two state machines of hashicorp/raft, compared: one whose Snapshot takes a view of a stillframe
// store, in microseconds, and one whose Snapshot copies its state under a lock, as is usual.
//
// Each run is a raft of one member, into which a client puts transfers at a fixed rate while
// snapshots are taken one after the other. An apply takes from the time at which it was due until
// its reply. Runs alternate; the table has the median of the runs.
//
//	go run . -mib 512 -rate 5000 -seconds 10 -runs 5
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// figures are those of a run.
type figures struct {
	p50, p99, most, snapshot, persist time.Duration
	snapshots                         int
}

func main() {
	mib := flag.Int("mib", 512, "MiB of state")
	rate := flag.Int("rate", 5000, "applies a second")
	seconds := flag.Int("seconds", 10, "length of a run")
	runs := flag.Int("runs", 5, "runs of each")
	dir := flag.String("dir", os.TempDir(), "where snapshots and the store go")
	flag.Parse()

	accounts := *mib << 20 / 8
	rows := []struct {
		name      string
		snapshots bool
		make      func(folder string) (machine, error)
	}{
		{"copy, no snapshots", false, func(string) (machine, error) { return NewCopyFSM(accounts), nil }},
		{"view, no snapshots", false, func(folder string) (machine, error) { return NewViewFSM(folder, accounts) }},
		{"copy under a lock", true, func(string) (machine, error) { return NewCopyFSM(accounts), nil }},
		{"view of stillframe", true, func(folder string) (machine, error) { return NewViewFSM(folder, accounts) }},
	}
	found := make([][]figures, len(rows))
	for run := range *runs {
		for i, row := range rows {
			folder, err := os.MkdirTemp(*dir, "raft-go-")
			must(err)
			fsm, err := row.make(folder + "/store")
			must(err)
			found[i] = append(found[i], measure(fsm, accounts, folder, row.snapshots, *rate, *seconds))
			must(fsm.Close())
			must(os.RemoveAll(folder))
			log.Printf("run %d, %s: %+v", run+1, row.name, found[i][run])
		}
	}
	fmt.Printf("\n%d MiB of state, %d applies a second, %d s a run, median of %d runs\n\n", *mib, *rate, *seconds, *runs)
	fmt.Println("| state machine | Snapshot() | apply p50 | p99 | max | snapshot written in |")
	fmt.Println("|---|---|---|---|---|---|")
	for i, row := range rows {
		of := func(field func(figures) time.Duration) string {
			values := make([]time.Duration, 0, *runs)
			for _, run := range found[i] {
				values = append(values, field(run))
			}
			middle := median(values)
			if middle == 0 {
				return ""
			}
			return middle.Round(max(time.Microsecond/10, middle/1000)).String()
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", row.name,
			of(func(f figures) time.Duration { return f.snapshot }),
			of(func(f figures) time.Duration { return f.p50 }),
			of(func(f figures) time.Duration { return f.p99 }),
			of(func(f figures) time.Duration { return f.most }),
			of(func(f figures) time.Duration { return f.persist }))
	}
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

// measure runs a raft of one member on fsm.
func measure(fsm machine, accounts int, folder string, snapshots bool, rate, seconds int) figures {
	watched := &timed{machine: fsm}
	node := lone(watched, folder)
	// Each page is written, so that none is one of zeros that the system shares.
	for account := uint64(0); account < uint64(accounts); account += 512 {
		must(asError(watched.Apply(&raft.Log{Data: transfer(account, account+256, 1)})))
	}
	written := make(chan []time.Duration)
	ended := make(chan struct{})
	go func() {
		var took []time.Duration
		defer func() { written <- took }()
		for snapshots {
			begun := time.Now()
			err := node.Snapshot().Error()
			if !errors.Is(err, raft.ErrNothingNewToSnapshot) {
				must(err)
				took = append(took, time.Since(begun))
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	}()
	latencies := drive(node, accounts, rate, seconds)
	close(ended)
	took := <-written
	must(node.Shutdown().Error())
	slices.Sort(latencies)
	result := figures{
		p50:       latencies[len(latencies)/2],
		p99:       latencies[len(latencies)*99/100],
		most:      latencies[len(latencies)-1],
		snapshots: len(took),
	}
	if len(took) > 0 {
		result.persist = median(took)
		result.snapshot = median(watched.took)
	}
	return result
}

// drive applies transfers when they are due, and says how long after that each had its reply.
func drive(node *raft.Raft, accounts, rate, seconds int) []time.Duration {
	type sent struct {
		due    time.Time
		future raft.ApplyFuture
	}
	replies := make(chan sent, rate*seconds)
	count := rate * seconds
	start := time.Now()
	go func() {
		for i := range count {
			due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(due))
			data := transfer(rand.Uint64N(uint64(accounts)), rand.Uint64N(uint64(accounts)), 1)
			replies <- sent{due, node.Apply(data, 0)}
		}
		close(replies)
	}()
	latencies := make([]time.Duration, 0, count)
	for reply := range replies {
		must(reply.future.Error())
		latencies = append(latencies, time.Since(reply.due))
		must(asError(reply.future.Response()))
	}
	return latencies
}

// lone is a raft of one member, with its log in memory and snapshots in folder.
func lone(fsm raft.FSM, folder string) *raft.Raft {
	config := raft.DefaultConfig()
	config.LocalID = "one"
	config.LogOutput = io.Discard
	config.SnapshotThreshold = 1 << 62 // only when asked
	config.TrailingLogs = 128
	logs := raft.NewInmemStore()
	files, err := raft.NewFileSnapshotStore(folder, 1, io.Discard)
	must(err)
	address, transport := raft.NewInmemTransport("")
	members := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: address}}}
	must(raft.BootstrapCluster(config, logs, logs, files, transport, members))
	node, err := raft.NewRaft(config, fsm, logs, logs, files, transport)
	must(err)
	for !<-node.LeaderCh() {
	}
	return node
}

func asError(reply any) error {
	err, _ := reply.(error)
	return err
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
