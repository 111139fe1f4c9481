package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A transfer of money is an entry of the log: from, to, amount. Balances wrap around, and their sum
// is 0 for ever, which each snapshot can be checked by.
const transferBytes = 24

func transfer(from, to, amount uint64) []byte {
	data := make([]byte, 0, transferBytes)
	for _, number := range []uint64{from, to, amount} {
		data = binary.LittleEndian.AppendUint64(data, number)
	}
	return data
}

func decode(data []byte) (from, to, amount uint64, err error) {
	if len(data) != transferBytes {
		return 0, 0, 0, fmt.Errorf("an entry of %d bytes is no transfer", len(data))
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(data[at:]) }
	return number(0), number(8), number(16), nil
}

// machine is what the program compares: a raft.FSM that tells how long Snapshot takes.
type machine interface {
	raft.FSM
	Balance(account uint64) (uint64, error)
	Close() error
}

// ViewFSM keeps balances in a stillframe store: Snapshot takes a view, which Persist reads while
// Apply goes on.
type ViewFSM struct {
	// Apply, Snapshot and Restore come from one goroutine of raft; this is for Balance.
	lock  sync.Mutex
	store *Store
	words uint64
}

// NewViewFSM keeps so many balances in a store in directory.
func NewViewFSM(directory string, accounts int) (*ViewFSM, error) {
	store, err := OpenStore(directory, accounts)
	return &ViewFSM{store: store, words: uint64(accounts)}, err
}

// Apply does a transfer, and returns an error or nil.
func (f *ViewFSM) Apply(entry *raft.Log) any {
	from, to, amount, err := decode(entry.Data)
	if err != nil {
		return err
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	left, err := f.store.Read(from)
	if err != nil {
		return err
	}
	right, err := f.store.Read(to)
	if err != nil || from == to {
		return err
	}
	if err := f.store.Act([]uint64{from, to}, []uint64{left - amount, right + amount}); err != nil {
		return err
	}
	return nil
}

// Snapshot keeps the state of now.
func (f *ViewFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	view, err := f.store.View()
	if err != nil {
		return nil, err
	}
	return &viewSnapshot{view, f.words}, nil
}

// Restore replaces the state by that of a snapshot.
func (f *ViewFSM) Restore(from io.ReadCloser) error {
	defer from.Close()
	f.lock.Lock()
	defer f.lock.Unlock()
	return readBalances(from, f.words, f.store.WriteRun)
}

// Balance is what an account has.
func (f *ViewFSM) Balance(account uint64) (uint64, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.store.Read(account)
}

// Close ends the store.
func (f *ViewFSM) Close() error { return f.store.Close() }

type viewSnapshot struct {
	view  *View
	words uint64
}

func (s *viewSnapshot) Persist(sink raft.SnapshotSink) error {
	return persist(sink, s.words, s.view.ReadRun)
}

func (s *viewSnapshot) Release() { s.view.Close() }

// CopyFSM is the usual way: a slice under a lock, and Snapshot copies it.
type CopyFSM struct {
	lock     sync.Mutex
	balances []uint64
}

// NewCopyFSM keeps so many balances.
func NewCopyFSM(accounts int) *CopyFSM { return &CopyFSM{balances: make([]uint64, accounts)} }

// Apply does a transfer, and returns an error or nil.
func (f *CopyFSM) Apply(entry *raft.Log) any {
	from, to, amount, err := decode(entry.Data)
	if err != nil {
		return err
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if accounts := uint64(len(f.balances)); from >= accounts || to >= accounts {
		return fmt.Errorf("there are %d accounts", accounts)
	}
	f.balances[from] -= amount
	f.balances[to] += amount
	return nil
}

// Snapshot copies the state.
func (f *CopyFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return copySnapshot(append([]uint64(nil), f.balances...)), nil
}

// Restore replaces the state by that of a snapshot.
func (f *CopyFSM) Restore(from io.ReadCloser) error {
	defer from.Close()
	f.lock.Lock()
	defer f.lock.Unlock()
	return readBalances(from, uint64(len(f.balances)), func(start uint64, values []uint64) error {
		copy(f.balances[start:], values)
		return nil
	})
}

// Balance is what an account has.
func (f *CopyFSM) Balance(account uint64) (uint64, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.balances[account], nil
}

// Close has nothing to do.
func (f *CopyFSM) Close() error { return nil }

type copySnapshot []uint64

func (s copySnapshot) Persist(sink raft.SnapshotSink) error {
	return persist(sink, uint64(len(s)), func(start uint64, into []uint64) error {
		copy(into, s[start:])
		return nil
	})
}

func (s copySnapshot) Release() {}

// timed tells how long each call of Snapshot holds Apply up.
type timed struct {
	machine
	lock sync.Mutex
	took []time.Duration
}

func (t *timed) Snapshot() (raft.FSMSnapshot, error) {
	begun := time.Now()
	snapshot, err := t.machine.Snapshot()
	t.lock.Lock()
	defer t.lock.Unlock()
	t.took = append(t.took, time.Since(begun))
	return snapshot, err
}
