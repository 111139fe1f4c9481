package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const testAccounts = 3 * chunkWords / 2

// memorySink is a raft.SnapshotSink in memory.
type memorySink struct {
	bytes.Buffer
	isCancelled bool
}

func (s *memorySink) ID() string    { return "memory" }
func (s *memorySink) Close() error  { return nil }
func (s *memorySink) Cancel() error { s.isCancelled = true; return nil }

func machines(t *testing.T) map[string]func() machine {
	return map[string]func() machine{
		"view": func() machine {
			fsm, err := NewViewFSM(t.TempDir(), testAccounts)
			if err != nil {
				t.Fatal(err)
			}
			return fsm
		},
		"copy": func() machine { return NewCopyFSM(testAccounts) },
	}
}

func random(random *rand.Rand) []byte {
	account := func() uint64 { return random.Uint64N(testAccounts) }
	return transfer(account(), account(), random.Uint64N(1000))
}

// What Persist writes beside Apply is the state of Snapshot, and Restore brings it back.
func TestSnapshotsHoldTheirInstantWhileApplyGoesOn(t *testing.T) {
	for name, open := range machines(t) {
		t.Run(name, func(t *testing.T) {
			fsm, restored := open(), open()
			defer fsm.Close()
			defer restored.Close()
			model := make([]uint64, testAccounts)
			source := rand.New(rand.NewPCG(1, 2))
			for round := range 8 {
				snapshot, err := fsm.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				var persisted sync.WaitGroup
				sink := &memorySink{}
				persisted.Add(1)
				go func() {
					defer persisted.Done()
					if err := snapshot.Persist(sink); err != nil {
						t.Error(err)
					}
					snapshot.Release()
				}()
				then := append([]uint64(nil), model...)
				for range 5000 {
					data := random(source)
					from, to, amount, _ := decode(data)
					model[from] -= amount
					model[to] += amount
					if reply := fsm.Apply(&raft.Log{Data: data}); reply != nil {
						t.Fatal(reply)
					}
				}
				persisted.Wait()
				if err := restored.Restore(io.NopCloser(&sink.Buffer)); err != nil {
					t.Fatal(err)
				}
				for account, balance := range then {
					if found, err := restored.Balance(uint64(account)); err != nil || found != balance {
						t.Fatalf("round %d: account %d has %d, not %d: %v", round, account, found, balance, err)
					}
				}
			}
		})
	}
}

func TestWhatIsWrongIsRefusedAndChangesNothing(t *testing.T) {
	for name, open := range machines(t) {
		t.Run(name, func(t *testing.T) {
			fsm := open()
			defer fsm.Close()
			for _, data := range [][]byte{nil, {1}, transfer(0, testAccounts, 1), transfer(1<<63, 0, 1)} {
				if asError(fsm.Apply(&raft.Log{Data: data})) == nil {
					t.Fatalf("%v was applied", data)
				}
			}
			for _, stream := range [][]byte{nil, {1, 2}, make([]byte, 8), transfer(testAccounts, 7, 7)} {
				if fsm.Restore(io.NopCloser(bytes.NewReader(stream))) == nil {
					t.Fatalf("%v was restored", stream)
				}
			}
		})
	}
}

// A member that comes late is sent a snapshot, and has the state of the others.
func TestAMemberThatComesLateRestoresASnapshot(t *testing.T) {
	fsms, nodes, addresses := []machine{}, []*raft.Raft{}, []raft.ServerAddress{}
	transports := []*raft.InmemTransport{}
	for i := range 2 {
		fsm, err := NewViewFSM(t.TempDir(), testAccounts)
		must(err)
		config := raft.DefaultConfig()
		config.LocalID = raft.ServerID([]string{"one", "two"}[i])
		config.LogOutput = io.Discard
		config.TrailingLogs = 1
		logs := raft.NewInmemStore()
		files, err := raft.NewFileSnapshotStore(t.TempDir(), 1, io.Discard)
		must(err)
		address, transport := raft.NewInmemTransport("")
		if i == 0 {
			members := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: address}}}
			must(raft.BootstrapCluster(config, logs, logs, files, transport, members))
		}
		node, err := raft.NewRaft(config, fsm, logs, logs, files, transport)
		must(err)
		fsms, nodes, addresses = append(fsms, fsm), append(nodes, node), append(addresses, address)
		transports = append(transports, transport)
	}
	transports[0].Connect(addresses[1], transports[1])
	transports[1].Connect(addresses[0], transports[0])
	for !<-nodes[0].LeaderCh() {
	}
	source := rand.New(rand.NewPCG(3, 4))
	apply := func() {
		for range 2000 {
			must(nodes[0].Apply(random(source), time.Minute).Error())
		}
	}
	apply()
	must(nodes[0].Snapshot().Error())
	must(nodes[0].AddVoter("two", addresses[1], 0, time.Minute).Error())
	apply()
	for nodes[1].AppliedIndex() < nodes[0].LastIndex() {
		time.Sleep(time.Millisecond)
	}
	for account := range uint64(testAccounts) {
		one, err := fsms[0].Balance(account)
		must(err)
		two, err := fsms[1].Balance(account)
		must(err)
		if one != two {
			t.Fatalf("account %d has %d and %d", account, one, two)
		}
	}
	for i := range nodes {
		must(nodes[i].Shutdown().Error())
		must(fsms[i].Close())
	}
}

// The comparison, small: it must not rot.
func TestTheComparisonRuns(t *testing.T) {
	for name, open := range machines(t) {
		t.Run(name, func(t *testing.T) {
			fsm := open()
			defer fsm.Close()
			found := measure(fsm, testAccounts, t.TempDir(), true, 500, 1)
			if found.snapshots == 0 || found.snapshot == 0 || found.most < found.p50 {
				t.Fatalf("%+v", found)
			}
		})
	}
}

func BenchmarkCalls(b *testing.B) {
	store, err := OpenStore(b.TempDir(), testAccounts)
	must(err)
	defer store.Close()
	b.Run("read", func(b *testing.B) {
		for i := range b.N {
			_, err := store.Read(uint64(i % testAccounts))
			must(err)
		}
	})
	b.Run("act of two words", func(b *testing.B) {
		values := []uint64{1, 2}
		for i := range b.N {
			must(store.Act([]uint64{uint64(i % testAccounts), 7}, values))
		}
	})
	b.Run("view", func(b *testing.B) {
		for range b.N {
			view, err := store.View()
			must(err)
			view.Close()
		}
	})
}
