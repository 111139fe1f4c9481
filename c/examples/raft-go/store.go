package main

// #cgo pkg-config: stillframe
// #include <stdlib.h>
// #include <stillframe.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// Store is a stillframe store without a log: raft has one. One goroutine at a time may use it.
type Store struct {
	store C.sf_store
	// For texts; of C's memory, so that no call allocates.
	told *C.sf_error
}

// OpenStore opens the store of so many words in directory.
func OpenStore(directory string, words int) (*Store, error) {
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	s := &Store{told: (*C.sf_error)(C.calloc(1, C.sizeof_sf_error))}
	var options C.sf_options
	if err := s.failed(C.sf_options_init(&options, C.sizeof_sf_options, s.told)); err != nil {
		return nil, err
	}
	options.words = C.uint64_t(words)
	options.log = C.SF_LOG_NONE
	if err := s.failed(C.sf_store_open(path, &options, &s.store, s.told)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) failed(code C.sf_code) error {
	if code == C.SF_OK {
		return nil
	}
	return fmt.Errorf("stillframe: %s", C.GoString(&s.told.message[0]))
}

// Close ends the store.
func (s *Store) Close() error {
	err := s.failed(C.sf_store_close(s.store, s.told))
	C.free(unsafe.Pointer(s.told))
	return err
}

// Read gives the latest value of a word.
func (s *Store) Read(index uint64) (value uint64, err error) {
	var read C.uint64_t
	err = s.failed(C.sf_store_read(s.store, C.uint64_t(index), &read, s.told))
	return uint64(read), err
}

// Act replaces words in any places, all or none.
func (s *Store) Act(indices, values []uint64) error {
	if len(values) != len(indices) || len(indices) == 0 {
		return fmt.Errorf("%d indices and %d values", len(indices), len(values))
	}
	return s.failed(C.sf_act(s.store, words(indices), words(values), C.size_t(len(indices)), nil, s.told))
}

// WriteRun replaces the words from start on.
func (s *Store) WriteRun(start uint64, values []uint64) error {
	return s.failed(C.sf_store_write_run(s.store, C.uint64_t(start), words(values), C.size_t(len(values)), s.told))
}

// View is the state of an instant. Any goroutine may read it.
type View struct{ view C.sf_view }

// View keeps the state of now, in microseconds.
func (s *Store) View() (*View, error) {
	view := &View{}
	return view, s.failed(C.sf_view_open(s.store, &view.view, s.told))
}

// ReadRun reads the words from start on as they were.
func (v *View) ReadRun(start uint64, into []uint64) error {
	var told C.sf_error
	code := C.sf_view_read_run(v.view, C.uint64_t(start), words(into), C.size_t(len(into)), &told)
	if code != C.SF_OK {
		return fmt.Errorf("stillframe: %s", C.GoString(&told.message[0]))
	}
	return nil
}

// Close gives the view up.
func (v *View) Close() { C.sf_view_close(v.view, nil) }

func words(of []uint64) *C.uint64_t { return (*C.uint64_t)(unsafe.SliceData(of)) }
