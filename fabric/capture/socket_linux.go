package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	receiveBuffer = 32 << 20 // bytes of frames that may wait, so that a burst of a whole fabric's worth finds room
	batchLen      = 32       // frames a system call
	bufferLen     = 68 << 10 // the largest frame of a plain host with segmentation offload, and more
	tagLen        = 4        // room for a VLAN tag that the kernel took off
)

// OpenSocket opens a packet socket for what arrives at an interface of the current namespace, all EtherTypes, nothing of
// what the interface sends. It needs CAP_NET_RAW there. The descriptor is non-blocking and may be handed to another
// process, which reads it with a Source; the caller closes it.
func OpenSocket(ifindex int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("capture: packet socket: %w (needs CAP_NET_RAW)", err)
	}
	set := func(level, opt, v int) error { return unix.SetsockoptInt(fd, level, opt, v) }
	if set(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = set(unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // as much as net.core.rmem_max lets us
	}
	_ = set(unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) // Linux 4.20; a Source leaves them out too
	for _, o := range [][2]int{{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS}, {unix.SOL_PACKET, unix.PACKET_AUXDATA}} {
		if err := set(o[0], o[1], 1); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("capture: packet socket option %d: %w", o[1], err)
		}
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in network order
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		all = unix.ETH_P_ALL
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifindex}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("capture: bind to interface %d: %w", ifindex, err)
	}
	return fd, nil
}

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// Source reads a packet socket. It is for one goroutine.
type Source struct {
	fd       int
	msgs     [batchLen]mmsghdr
	iovs     [batchLen]unix.Iovec
	addrs    [batchLen]unix.RawSockaddrLinklayer
	controls [batchLen][128]byte
	buf      []byte
	stats    Stats
}

// NewSource returns a Source over a descriptor of OpenSocket and takes it over.
func NewSource(fd int) *Source {
	s := &Source{fd: fd, buf: make([]byte, batchLen*bufferLen)}
	for i := range s.msgs {
		s.iovs[i].Base = &s.buf[i*bufferLen+tagLen]
		s.iovs[i].SetLen(bufferLen - tagLen)
		h := &s.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&s.addrs[i]))
		h.Iov = &s.iovs[i]
		h.SetIovlen(1)
		h.Control = &s.controls[i][0]
	}
	return s
}

// Attach has the kernel drop what a program rejects; frames already in the queue stay.
func (s *Source) Attach(prog []bpf.RawInstruction) error {
	raw := make([]unix.SockFilter, len(prog))
	for i, ri := range prog {
		raw[i] = unix.SockFilter{Code: ri.Op, Jt: ri.Jt, Jf: ri.Jf, K: ri.K}
	}
	err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(raw)), Filter: unsafe.SliceData(raw)})
	if err != nil {
		return fmt.Errorf("capture: attach the filter: %w", err)
	}
	return nil
}

// Read takes up to 32 frames without waiting and hands each to fn: the bytes, valid during the call, the length that
// the frame had, and the wall-clock time in ns since 1970 at which the kernel saw it. empty says that the queue has none
// left.
func (s *Source) Read(fn func(frame []byte, length int, wall int64)) (empty bool, err error) {
	for i := range s.msgs {
		h := &s.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrLinklayer
		h.SetControllen(len(s.controls[i]))
	}
	r, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[0])), batchLen,
		unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
	switch errno {
	case 0:
	case unix.EAGAIN:
		return true, nil
	case unix.EINTR, unix.ENETDOWN: // the interface went down; it may come up again
		return false, nil
	default:
		return true, fmt.Errorf("capture: read the packet socket: %w", errno)
	}
	for i := range int(r) {
		if s.addrs[i].Pkttype != unix.PACKET_OUTGOING {
			fn(s.frame(i))
		}
	}
	return int(r) < batchLen, nil
}

// frame returns what message i holds, its VLAN tag put back.
func (s *Source) frame(i int) (frame []byte, length int, wall int64) {
	length = int(s.msgs[i].n)
	slot := s.buf[i*bufferLen : (i+1)*bufferLen]
	frame = slot[tagLen : tagLen+min(length, bufferLen-tagLen)]
	control := s.controls[i][:s.msgs[i].hdr.Controllen]
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		control = rest
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			wall = (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA && len(data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && len(frame) >= 12 {
				frame = retag(slot, len(frame), aux)
				length += tagLen
			}
		}
	}
	if wall == 0 {
		wall = time.Now().UnixNano()
	}
	return frame, length, wall
}

// retag moves the addresses of the n bytes in slot forward and puts the tag behind them.
func retag(slot []byte, n int, aux *unix.TpacketAuxdata) []byte {
	tpid := uint16(unix.ETH_P_8021Q)
	if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = aux.Vlan_tpid
	}
	copy(slot, slot[tagLen:tagLen+12])
	binary.BigEndian.PutUint16(slot[12:], tpid)
	binary.BigEndian.PutUint16(slot[14:], aux.Vlan_tci)
	return slot[:tagLen+n]
}

// Stats returns how many frames came to the socket since it was opened and how many found no room.
func (s *Source) Stats() (Stats, error) {
	st, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return s.stats, fmt.Errorf("capture: statistics of the packet socket: %w", err)
	}
	s.stats.Received += uint64(st.Packets) // the kernel starts again from 0 at every call; dropped ones are among them
	s.stats.Dropped += uint64(st.Drops)
	return s.stats, nil
}

// Close closes the descriptor.
func (s *Source) Close() error { return unix.Close(s.fd) }

// wait blocks until one of the sources has something, wake is readable, or the time has passed; < 0 = no limit.
func wait(sources []*Source, wake int, limit time.Duration) error {
	fds := make([]unix.PollFd, 0, len(sources)+1)
	for _, s := range sources {
		fds = append(fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	fds = append(fds, unix.PollFd{Fd: int32(wake), Events: unix.POLLIN})
	ms := -1
	if limit >= 0 {
		ms = int(limit.Milliseconds())
	}
	if _, err := unix.Poll(fds, ms); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("capture: wait for packets: %w", err)
	}
	return nil
}
