package main

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// Words that are read and written at once.
const chunkWords = 1 << 16

// persist writes the number of balances and then each of them, 8 bytes little-endian.
func persist(sink raft.SnapshotSink, count uint64, read func(start uint64, into []uint64) error) error {
	err := writeBalances(sink, count, read)
	if err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

func writeBalances(to io.Writer, count uint64, read func(start uint64, into []uint64) error) error {
	buffer := make([]byte, 0, 8*chunkWords)
	if _, err := to.Write(binary.LittleEndian.AppendUint64(buffer, count)); err != nil {
		return err
	}
	values := make([]uint64, chunkWords)
	for start := uint64(0); start < count; start += chunkWords {
		chunk := values[:min(chunkWords, count-start)]
		if err := read(start, chunk); err != nil {
			return err
		}
		bytes := buffer
		for _, value := range chunk {
			bytes = binary.LittleEndian.AppendUint64(bytes, value)
		}
		if _, err := to.Write(bytes); err != nil {
			return err
		}
	}
	return nil
}

// readBalances hands what writeBalances wrote to write, of a state of this many balances.
func readBalances(from io.Reader, count uint64, write func(start uint64, values []uint64) error) error {
	buffer := make([]byte, 8*chunkWords)
	if _, err := io.ReadFull(from, buffer[:8]); err != nil {
		return err
	}
	if found := binary.LittleEndian.Uint64(buffer); found != count {
		return fmt.Errorf("a snapshot of %d accounts, not of %d", found, count)
	}
	values := make([]uint64, chunkWords)
	for start := uint64(0); start < count; start += chunkWords {
		chunk := values[:min(chunkWords, count-start)]
		bytes := buffer[:8*len(chunk)]
		if _, err := io.ReadFull(from, bytes); err != nil {
			return err
		}
		for i := range chunk {
			chunk[i] = binary.LittleEndian.Uint64(bytes[8*i:])
		}
		if err := write(start, chunk); err != nil {
			return err
		}
	}
	return nil
}
