// Package pktio moves frames between a node and its veth ports: one AF_PACKET socket, bound to no interface, serves all
// ports, with a TPACKET_V2 receive ring and sendmmsg(2) for whole batches. It owns no goroutine and allocates nothing
// after Open; it is not for concurrent use.
package pktio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batch     = 64
	hdrLen    = 32 // struct tpacket2_hdr, and where struct sockaddr_ll follows
	blockSize = 128 << 10
	tagLen    = 4 // of a VLAN tag; a slot has 14 free bytes between its header and the frame
)

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   uint32
}

// Socket is the packet socket of one network namespace.
type Socket struct {
	fd     int
	ring   []byte
	frame  int // bytes a slot
	perBlk int
	slots  int
	next   int
	ports  []int32 // interface index of each port
	byIf   map[int32]int
	last   int // port of the latest frame: the next one is most likely of the same
	drops  uint64

	n    int // frames queued for sending
	msgs [batch]mmsghdr
	iov  [batch]unix.Iovec
	addr [batch]unix.RawSockaddrLinklayer
	port [batch]int
}

// Open makes the socket for the interfaces of this namespace named in ports, with a ring of at least slots frames of up
// to maxFrame bytes. It needs CAP_NET_RAW in the namespace.
func Open(ports []string, maxFrame, slots int) (*Socket, error) {
	s := &Socket{byIf: map[int32]int{}}
	for i, name := range ports {
		index, err := Index(name)
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, int32(index))
		s.byIf[int32(index)] = i
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	s.fd = fd
	if err := s.setup(maxFrame, slots); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Index is the interface index of a port in this namespace.
func Index(name string) (int, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return 0, fmt.Errorf("port %s: %w", name, err)
	}
	return ifi.Index, nil
}

// Rebind takes a port's interface anew, after it was replaced by one of the same name.
func (s *Socket) Rebind(port int, name string) error {
	index, err := Index(name)
	if err != nil {
		return err
	}
	delete(s.byIf, s.ports[port])
	s.ports[port] = int32(index)
	s.byIf[int32(index)] = port
	return nil
}

func (s *Socket) setup(maxFrame, slots int) error {
	opt := func(name string, err error) error {
		if err != nil {
			return fmt.Errorf("packet socket: %s: %w", name, err)
		}
		return nil
	}
	// packet(7): the version must be set before the ring; PACKET_IGNORE_OUTGOING keeps our own frames out of it, and
	// PACKET_QDISC_BYPASS skips a queue that veth does not have.
	s.frame = (hdrLen + 20 + 16 + 64 + maxFrame + 63) &^ 63
	s.perBlk = blockSize / s.frame
	if s.perBlk == 0 {
		return fmt.Errorf("packet socket: frames of %d bytes do not fit a ring block", maxFrame)
	}
	blocks := (slots + s.perBlk - 1) / s.perBlk
	s.slots = blocks * s.perBlk
	req := unix.TpacketReq{Block_size: blockSize, Block_nr: uint32(blocks), Frame_size: uint32(s.frame), Frame_nr: uint32(s.slots)}
	err := errors.Join(
		opt("PACKET_VERSION", unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2)),
		opt("PACKET_IGNORE_OUTGOING", unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)),
		opt("PACKET_QDISC_BYPASS", unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)),
		opt("PACKET_RX_RING", unix.SetsockoptTpacketReq(s.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req)),
	)
	if err != nil {
		return err
	}
	s.ring, err = unix.Mmap(s.fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return opt("map the ring", err)
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL)}); err != nil {
		return opt("bind", err)
	}
	for i := range s.msgs {
		s.addr[i] = unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Halen: 6}
		m := &s.msgs[i].hdr
		m.Name = (*byte)(unsafe.Pointer(&s.addr[i]))
		m.Namelen = unix.SizeofSockaddrLinklayer
		m.Iov = &s.iov[i]
		m.SetIovlen(1)
	}
	return nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// FD is the socket's descriptor, for poll.
func (s *Socket) FD() int { return s.fd }

func (s *Socket) slot(i int) []byte {
	off := i/s.perBlk*blockSize + i%s.perBlk*s.frame
	return s.ring[off : off+s.frame]
}

// Next returns the oldest received frame and its port; the bytes are the ring's and last until Release. ok is false when
// the ring is empty. Frames of interfaces that are no port, and cut ones, are skipped.
func (s *Socket) Next() (port int, b []byte, ok bool) {
	for {
		h := s.slot(s.next)
		status := (*uint32)(unsafe.Pointer(&h[0]))
		if atomic.LoadUint32(status)&unix.TP_STATUS_USER == 0 {
			return 0, nil, false
		}
		n := *(*uint32)(unsafe.Pointer(&h[4]))
		snap := *(*uint32)(unsafe.Pointer(&h[8]))
		mac := *(*uint16)(unsafe.Pointer(&h[12]))
		if *status&unix.TP_STATUS_VLAN_VALID != 0 {
			mac = tag(h, mac)
			n, snap = n+tagLen, snap+tagLen
		}
		p, known := s.last, true
		if index := *(*int32)(unsafe.Pointer(&h[hdrLen+4])); s.ports[p] != index {
			if p, known = s.byIf[index]; known {
				s.last = p
			}
		}
		if known && n == snap {
			return p, h[mac : uint32(mac)+snap], true
		}
		if known {
			s.drops++
		}
		s.Release()
	}
}

// tag puts a VLAN tag back to where it was in the frame; the kernel has taken it out and put it into the slot's header. It
// returns where the frame begins now: the addresses move into the gap in front of them.
func tag(h []byte, mac uint16) uint16 {
	f := h[mac-tagLen:]
	copy(f[:12], f[tagLen:])
	binary.BigEndian.PutUint16(f[12:], *(*uint16)(unsafe.Pointer(&h[26]))) // tp_vlan_tpid
	binary.BigEndian.PutUint16(f[14:], *(*uint16)(unsafe.Pointer(&h[24]))) // tp_vlan_tci
	return mac - tagLen
}

// Release gives the slot of the last Next back to the kernel.
func (s *Socket) Release() {
	h := s.slot(s.next)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&h[0])), unix.TP_STATUS_KERNEL)
	if s.next++; s.next == s.slots {
		s.next = 0
	}
}

// Queue adds a frame to the batch; its bytes must stay as they are until Flush. It says whether the batch is full.
func (s *Socket) Queue(port int, b []byte) (full bool) {
	i := s.n
	s.iov[i].Base = unsafe.SliceData(b)
	s.iov[i].SetLen(len(b))
	s.addr[i].Ifindex = s.ports[port]
	s.port[i] = port
	s.n++
	return s.n == batch
}

// Flush sends the batch in order and tells failed for each frame that the kernel refused.
func (s *Socket) Flush(failed func(port int, err error)) {
	for i := 0; i < s.n; {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[i])), uintptr(s.n-i), 0, 0, 0)
		switch {
		case e == unix.EAGAIN: // our frames wait for the kernel's softirq, which may need this processor
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		case e == unix.EINTR:
		case e != 0:
			failed(s.port[i], e)
			i++
		default:
			i += int(n)
		}
	}
	s.n = 0
}

// Drops is how many frames the kernel could not place in the ring since Open.
func (s *Socket) Drops() uint64 {
	if st, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		s.drops += uint64(st.Drops) // reading resets the kernel's count
	}
	return s.drops
}

// Close frees the ring and the socket.
func (s *Socket) Close() error {
	if s.ring != nil {
		_ = unix.Munmap(s.ring)
		s.ring = nil
	}
	return unix.Close(s.fd)
}
