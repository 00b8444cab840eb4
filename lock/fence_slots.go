package lock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// A fence file is four sectors: a header, two slots and a heartbeat cell. The
// slot with the greater sequence number counts. A transition overwrites the other
// one, so a loss of power in the middle of it leaves the slot that counted. Each
// sector ends in a checksum of the rest; a slot names the epoch, so that one of
// another fence file is none of this one's.
const (
	sectorBytes = 512
	fenceBytes  = 4 * sectorBytes
	fenceMagic  = "caproot fence 1\n"
	sumOffset   = sectorBytes - 4
	cellOffset  = 3 * sectorBytes
)

// epoch tells a fence file from one that was made after it was deleted.
type epoch [16]byte

// leaseID names one acquisition.
type leaseID [16]byte

// fenceState says who issued the token of a slot.
type fenceState uint64

const (
	slotFree     fenceState = iota // nobody, or it was released
	slotHeld                       // a lease
	slotExternal                   // see FenceAt
)

type fenceSlot struct {
	seq, token uint64
	holder     leaseID
	state      fenceState
	ttl        time.Duration // as the holder chose it
	process    processMark
}

// fenceView is what one read of the file tells.
type fenceView struct {
	epoch epoch
	fenceSlot
	older int64 // offset of the slot that does not count
	// raw has the slots and the cell: it changes with every transition and beat.
	raw string
}

var sumTable = crc32.MakeTable(crc32.Castagnoli)

func sealSector(sector []byte) []byte {
	binary.BigEndian.PutUint32(sector[sumOffset:], crc32.Checksum(sector[:sumOffset], sumTable))
	return sector
}

func sealed(sector []byte) bool {
	return binary.BigEndian.Uint32(sector[sumOffset:]) == crc32.Checksum(sector[:sumOffset], sumTable)
}

func (s *fenceSlot) encode(e epoch) []byte {
	b := make([]byte, 0, sectorBytes)
	b = append(b, e[:]...)
	b = binary.BigEndian.AppendUint64(b, s.seq)
	b = binary.BigEndian.AppendUint64(b, s.token)
	b = append(b, s.holder[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.state))
	b = binary.BigEndian.AppendUint64(b, uint64(s.ttl))
	b = binary.BigEndian.AppendUint64(b, s.process.pid)
	b = binary.BigEndian.AppendUint64(b, s.process.start)
	b = append(b, s.process.world[:]...)
	return sealSector(b[:sectorBytes])
}

func decodeSlot(sector []byte, e epoch) (s fenceSlot, ok bool) {
	if !sealed(sector) || !bytes.Equal(sector[:16], e[:]) {
		return s, false
	}
	s.seq = binary.BigEndian.Uint64(sector[16:])
	s.token = binary.BigEndian.Uint64(sector[24:])
	copy(s.holder[:], sector[32:])
	s.state = fenceState(binary.BigEndian.Uint64(sector[48:]))
	s.ttl = time.Duration(binary.BigEndian.Uint64(sector[56:]))
	s.process.pid = binary.BigEndian.Uint64(sector[64:])
	s.process.start = binary.BigEndian.Uint64(sector[72:])
	copy(s.process.world[:], sector[80:])
	return s, s.seq < math.MaxUint64 && s.state <= slotExternal && s.ttl >= 0 && s.ttl <= MaxTTL
}

// newFence is the content of a new fence file: no token was issued.
func newFenceContent(e epoch, resource string) []byte {
	b := make([]byte, 0, fenceBytes)
	b = append(b, fenceMagic...)
	b = append(b, e[:]...)
	b = append(b, resource[:min(len(resource), sumOffset-len(b))]...) // for people
	sealSector(b[:sectorBytes])
	first := fenceSlot{seq: 1}
	b = append(b[:sectorBytes], first.encode(e)...)
	return b[:fenceBytes]
}

// newCell is the content of the heartbeat cell after n renewals.
func newCell(holder leaseID, n uint64) []byte {
	b := make([]byte, 0, sectorBytes)
	b = append(b, holder[:]...)
	return sealSector(binary.BigEndian.AppendUint64(b, n)[:sectorBytes])
}

// parseFence reads a fence file. Without a valid slot nothing is known, least of
// all that no token was issued.
func parseFence(file []byte) (v fenceView, err error) {
	if len(file) < fenceBytes || string(file[:len(fenceMagic)]) != fenceMagic || !sealed(file[:sectorBytes]) {
		return v, fmt.Errorf("%w: it has no valid header", ErrFenceLost)
	}
	copy(v.epoch[:], file[len(fenceMagic):])
	v.raw = string(file[sectorBytes:fenceBytes])
	first, okFirst := decodeSlot(file[sectorBytes:2*sectorBytes], v.epoch)
	second, okSecond := decodeSlot(file[2*sectorBytes:3*sectorBytes], v.epoch)
	switch {
	case !okFirst && !okSecond:
		return v, fmt.Errorf("%w: it has no valid slot", ErrFenceLost)
	case okFirst && (!okSecond || first.seq > second.seq):
		v.fenceSlot, v.older = first, 2*sectorBytes
	default:
		v.fenceSlot, v.older = second, sectorBytes
	}
	return v, nil
}
