// Package ctl has the messages between the lab daemon and its nodes, and their SEQPACKET connection. The node dials; one
// JSON message is one packet; descriptors travel beside it. Nodes read between sweeps of their loop, so a message is
// handled while virtual time stands still for that node.
package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

// Hello is a node's first message; with it come its network namespace's descriptor.
type Hello struct {
	Lab  string `json:"lab"`
	Node string `json:"node"`
	ID   int    `json:"id"`
}

// PortPeer is what a node must know of a port's other end.
type PortPeer struct {
	MAC [6]byte `json:"mac"`
	Lab bool    `json:"lab"` // a lab node that speaks the trailer
	End bool    `json:"end"` // not a switch: what is trimmed on the way to it is on its last hop
}

// Config tells a node what it is.
type Config struct {
	Node       topology.Node   `json:"node"`
	Peers      []PortPeer      `json:"peers"`
	LabSeed    uint64          `json:"labSeed"`
	PayloadMTU int             `json:"payloadMtu"`
	DSCP       topology.DSCP   `json:"dscp"`
	CSIG       [2]uint16       `json:"csig,omitzero"`       // end points: TPIDs of compact and wide tags at that switch
	Class      uint8           `json:"class,omitempty"`     // end points: traffic class, and PFC priority, that the switch has their data in
	Control    uint8           `json:"control,omitempty"`   // … and their control packets, which wait for credits of that class
	Unmanaged  uint8           `json:"unmanaged,omitempty"` // … and their RUDI and UUD data
	Start      vt.Time         `json:"start,omitempty"`     // virtual time at which the node joins
	Real       bool            `json:"real"`                // --time real
	Gateway    *Neighbour      `json:"gateway,omitempty"`   // host nodes: the switch that they hang on
	Around     topology.Around `json:"around,omitzero"`     // end points: their fabric
	Routes     []RouteGroup    `json:"routes,omitempty"`    // switches
}

// Neighbour is an address with its MAC.
type Neighbour struct {
	Addr4 string  `json:"addr4"`
	Addr6 string  `json:"addr6"`
	MAC   [6]byte `json:"mac"`
}

// Run is a node's part in a run.
type Run struct {
	At    vt.Time         `json:"at"` // t0
	Seed  uint64          `json:"seed"`
	Warm  bool            `json:"warm,omitempty"`
	Spec  workload.Spec   `json:"spec"`
	Ranks []int           `json:"ranks,omitempty"` // on this node, in the order in which they start; none: only a node of the fabric
	Peers []workload.Peer `json:"peers"`           // all ranks
	Job   uint32          `json:"job,omitempty"`   // the ranks are attached processes of this job; 0: the FEP plays them

	FEP  *topology.FEPConfig `json:"fep,omitempty"`  // of the end point for this run; nil: what the topology says
	Keep int                 `json:"keep,omitempty"` // with Spec.Every: values of ports, and points of contexts, that the node keeps at most
}

// Change is a scheduled change at one virtual time.
type Change struct {
	At     vt.Time      `json:"at"`
	Port   int          `json:"port"`
	Impair *link.Impair `json:"impair,omitempty"` // the port's sending side
	RxDown *bool        `json:"rxDown,omitempty"` // its receiving side
	Retry  *Retry       `json:"retry,omitempty"`  // link layer retry, at both ends at once
	ReInit *bool        `json:"reInit,omitempty"` // the sending side shakes hands anew; false: it was to, and is not
	Credit *Credit      `json:"credit,omitempty"` // credit-based flow control, at both ends at once: on from the next run on, off from then on
	Wish   *Wish        `json:"wish,omitempty"`   // what this end wants of a negotiated link
	Routes []RouteGroup `json:"routes,omitzero"`  // replaces all routes of a switch, which may leave it none; nil: they stay

	Switch *switchd.Settings `json:"switch,omitempty"` // replaces all settings of a switch
}

// Retry turns link layer retry on or off.
type Retry struct {
	LLR *llr.Config `json:"llr,omitempty"` // nil: off
}

// Credit turns credit-based flow control on or off.
type Credit struct {
	CBFC *cbfc.Setup `json:"cbfc,omitempty"` // nil: off
}

// Wish is what one end of a negotiated link wants.
type Wish struct {
	topology.Wish
	Retry *llr.Config `json:"retry,omitempty"` // for when both want LLR
}

// RouteGroup is a set of prefixes that share their ports.
type RouteGroup struct {
	Ports    []int    `json:"ports"`
	Prefixes []string `json:"prefixes"`
}

// Message is what the daemon sends. Exactly one of the pointers is set, or Op names a call without argument.
type Message struct {
	ID      uint64   `json:"id"`
	Op      string   `json:"op"` // config, start, run, change, capture, pdcs, ccs, windows, paths, headers, ways, queues, lldp, cbfc, llr, phy, series, switch, carrier, rewire, job, poked, wake, stop
	Config  *Config  `json:"config,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Port    int      `json:"port,omitempty"`
	Up      bool     `json:"up,omitempty"`
	From    int      `json:"from,omitempty"`    // pdcs, series, paths: the first of the list that is wanted
	Peer    string   `json:"peer,omitempty"`    // paths: fabric address
	EVs     []uint16 `json:"evs,omitempty"`     // headers: entropy values
	Packets [][]byte `json:"packets,omitempty"` // ways: the headers of IP packets
	Job     *Job     `json:"job,omitempty"`
}

// Job lets processes that know its token be of a job, or no longer.
type Job struct {
	ID    uint32   `json:"id"`
	Token [16]byte `json:"token"`
	End   bool     `json:"end,omitempty"`
}

// Reply is what a node sends: the answer to message ID, or, with ID 0, its hello, a result, or changes of windows.
type Reply struct {
	ID     uint64               `json:"id,omitempty"`
	Error  string               `json:"error,omitempty"`
	Hello  *Hello               `json:"hello,omitempty"`
	Result *workload.RankResult `json:"result,omitempty"`
	Window *Windows             `json:"windows,omitempty"`
	Poke   bool                 `json:"poke,omitempty"` // a process wants to act: answered with "poked" once no leap can go beyond the page's Next any more
	LLDP   *LLDPEvent           `json:"lldp,omitempty"`
	Data   json.RawMessage      `json:"data,omitempty"`
}

const maxMessage = 4 << 20

// Conn is one end of the connection. Send and Recv may be used by one goroutine each.
type Conn struct {
	fd  int
	buf []byte
}

// NewConn wraps a connected SEQPACKET descriptor and takes it over.
func NewConn(fd int) *Conn {
	for _, opt := range []int{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, maxMessage) == nil {
			break
		}
	}
	return &Conn{fd: fd, buf: make([]byte, 64<<10)}
}

// Dial connects to the lab socket.
func Dial(path string) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect %s: %w", path, err)
	}
	return NewConn(fd), nil
}

// FD is the descriptor, for poll.
func (c *Conn) FD() int { return c.fd }

// Close closes the connection.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Shutdown wakes a blocked Recv with io.EOF.
func (c *Conn) Shutdown() { _ = unix.Shutdown(c.fd, unix.SHUT_RDWR) }

// Send sends one message with descriptors beside it.
func (c *Conn) Send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage { // the other end would end the connection
		return fmt.Errorf("message of %d bytes is larger than the %d that a node takes: %w", len(b), maxMessage, unix.EMSGSIZE)
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	for {
		_, err := unix.SendmsgN(c.fd, b, oob, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EMSGSIZE):
			return fmt.Errorf("message of %d bytes is larger than the socket takes: %w", len(b), err)
		default:
			return err
		}
	}
}

// Poke sends a message that says nothing, to wake the other end up. Where messages wait already it is not needed, and a
// full socket holds nobody up.
func (c *Conn) Poke() {
	_, _ = unix.SendmsgN(c.fd, []byte(`{"op":"wake"}`), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) // a node that is gone is noticed by its reader
}

// Patience bounds how long Recv waits, 0 = without end. What does not come in time is ErrAgain.
func (c *Conn) Patience(d time.Duration) error {
	tv := unix.NsecToTimeval(int64(d))
	return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

// ErrAgain says that no message waits, or came in time.
var ErrAgain = errors.New("no message")

// Recv reads one message into v. The files that came beside it are the caller's.
func (c *Conn) Recv(v any, wait bool) ([]*os.File, error) {
	flags := unix.MSG_CMSG_CLOEXEC
	if !wait {
		flags |= unix.MSG_DONTWAIT
	}
	n, err := c.size(flags)
	if err != nil {
		return nil, err
	}
	if n > len(c.buf) {
		c.buf = make([]byte, n)
	}
	oob := make([]byte, unix.CmsgSpace(8*4))
	n, oobn, _, _, err := unix.Recvmsg(c.fd, c.buf, oob, flags)
	if err != nil {
		return nil, recvErr(err)
	}
	files, err := rights(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if err := json.Unmarshal(c.buf[:n], v); err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("lab socket: %w", err)
	}
	return files, nil
}

// size waits for a message and tells its length without taking it.
func (c *Conn) size(flags int) (int, error) {
	for {
		n, _, _, _, err := unix.Recvmsg(c.fd, c.buf[:1], nil, flags|unix.MSG_PEEK|unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, recvErr(err)
		}
		if n == 0 {
			return 0, io.EOF
		}
		if n > maxMessage {
			return 0, fmt.Errorf("lab socket: message of %d bytes is too long", n)
		}
		return n, nil
	}
}

func recvErr(err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN):
		return ErrAgain
	case errors.Is(err, unix.ECONNRESET):
		return io.EOF
	}
	return err
}

func rights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range msgs {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

// Queue describes one egress queue of a port in the answer to "queues"; ports and queues that never saw a frame are left out.
type Queue struct {
	Port  string                    `json:"port"` // eth1
	Queue int                       `json:"queue"`
	C     map[string]uint64         `json:"counters"` // those that are not 0
	Depth [link.DepthBuckets]uint64 `json:"depth"`    // see link.QueueStats
}
