// Command late plays one operation between two nodes of a lab, with the receive posted a stated virtual time after the send:
// so that messages come before their receive, and every capture of it is the same. Processes that attach while the clock is
// paused are all let in when it goes on, before it leaps anywhere, so both ends can be started at leisure:
//
//	uetlab clock pause
//	uetlab exec host0 -- $PWD/bin/late -peer 10.0.0.2 -op tsend -size 65536 &
//	uetlab exec host1 -- $PWD/bin/late -peer 10.0.0.1 -op tsend -size 65536 -target -after 10us &
//	uetlab clock resume
//
// Of write, read and fetch the target does nothing but own the memory.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/wire"
)

var (
	peer   = flag.String("peer", "", "fabric `address` of the other node (uetlab inspect shows them)")
	name   = flag.String("op", "tsend", "send, tsend, write, read or fetch")
	size   = flag.Int("size", 4096, "`bytes`")
	target = flag.Bool("target", false, "be the one that receives, or whose memory it is")
	at     = flag.Duration("at", time.Minute, "virtual `time` of the lab at which the operation is posted")
	after  = flag.Duration("after", 0, "how much later the target posts its receive")
)

const (
	tag    = 7
	key    = 42
	header = 0xCAFE // data that comes with a write
)

// start is what the initiator posts.
var start = map[string]client.Op{
	"send":  {Kind: fep.OpSend},
	"tsend": {Kind: fep.OpTagSend, Tag: tag},
	"write": {Kind: fep.OpWrite, Key: key, Flags: fep.FlagData, Data: header},
	"read":  {Kind: fep.OpRead, Key: key},
	"fetch": {Kind: fep.OpFetchAtomic, Key: key, Atomic: wire.AtomicSum, Type: wire.AtomicUint64},
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("late: ")
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	fa, err := netip.ParseAddr(*peer)
	if err != nil {
		return fmt.Errorf("-peer: %w", err)
	}
	op, ok := start[*name]
	if !ok {
		return fmt.Errorf("-op: there is no %q", *name)
	}
	fabric, err := client.Open("")
	if err != nil {
		return err
	}
	log.Print("attaching")
	domain, err := fabric.Domain(ctx, client.DomainOptions{PID: 1})
	if err != nil {
		return err
	}
	defer domain.Close()
	cq, err := domain.OpenCQ(ctx, 8)
	if err != nil {
		return err
	}
	av, err := domain.OpenAV(ctx)
	if err != nil {
		return err
	}
	ep, err := domain.OpenEndpoint(ctx, client.EndpointConfig{AV: av, TxCQ: cq, RxCQ: cq})
	if err != nil {
		return err
	}
	other := ep.Addr()
	other.FA = fa
	if _, err := av.Insert(ctx, other); err != nil {
		return err
	}
	mem, err := domain.Alloc(ctx, 2*(*size))
	if err != nil {
		return err
	}
	buf, result := mem.Bytes()[:*size], mem.Bytes()[*size:]
	if *target {
		return receive(ctx, domain, cq, ep, &op, buf)
	}
	return initiate(ctx, domain, cq, ep, &op, buf, result)
}

// initiate posts the operation at its time.
func initiate(ctx context.Context, domain *client.Domain, cq *client.CQ, ep *client.Endpoint, op *client.Op, buf, result []byte) error {
	if op.Kind != fep.OpRead {
		fill(buf)
	}
	if op.Kind == fep.OpFetchAtomic {
		op.Result = result
	}
	op.Buf = buf
	if err := until(ctx, domain, *at); err != nil {
		return err
	}
	if err := ep.Post(op); err != nil {
		return err
	}
	if err := finish(ctx, domain, cq); err != nil {
		return err
	}
	return check(op.Kind, buf, result)
}

// receive posts the receive that much later, or opens its memory to the peer, and waits for what the peer does.
func receive(ctx context.Context, domain *client.Domain, cq *client.CQ, ep *client.Endpoint, op *client.Op, buf []byte) error {
	var err error
	switch op.Kind {
	case fep.OpSend, fep.OpTagSend:
		if err = until(ctx, domain, *at+*after); err == nil {
			recv := client.Op{Kind: fep.OpRecv, Peer: 0, Buf: buf} // AI Base must know from whom
			if op.Kind == fep.OpTagSend {
				recv.Kind, recv.Tag = fep.OpTagRecv, tag
			}
			err = ep.Post(&recv)
		}
	default:
		fill(buf)
		_, err = ep.RegisterMR(ctx, buf, client.MRConfig{Key: key, Notify: true, Access: client.RemoteRead | client.RemoteWrite | client.RemoteAtomic})
	}
	if err != nil {
		return err
	}
	if err := finish(ctx, domain, cq); err != nil {
		return err
	}
	if op.Kind == fep.OpFetchAtomic {
		return nil // it is no pattern any more
	}
	return check(op.Kind, buf, buf)
}

// until waits for a virtual time that is to come.
func until(ctx context.Context, domain *client.Domain, t time.Duration) error {
	if t <= domain.Now() {
		return fmt.Errorf("it is %v already: give -at a later time", domain.Now())
	}
	return domain.SleepUntil(ctx, t)
}

// finish waits for the completion and prints it, with times counted from -at. It stays for as long as the other end may need.
func finish(ctx context.Context, domain *client.Domain, cq *client.CQ) error {
	var done [1]client.Completion
	if _, err := cq.ReadWait(ctx, done[:]); err != nil {
		return err
	}
	c := done[0]
	fmt.Printf("%v: %d bytes, data %#x, posted %v, acknowledged or arrived %v, handed over %v\n", c.Kind, c.Len, c.Data, c.Posted-*at, c.Acked-*at, c.At-*at)
	if c.Err != nil {
		return c.Err
	}
	return domain.Sleep(ctx, time.Millisecond)
}

// fill writes a pattern.
func fill(b []byte) {
	for i := range b {
		b[i] = byte(i * 7)
	}
}

// check looks for the pattern where the operation has brought it.
func check(kind fep.Kind, buf, result []byte) error {
	want := make([]byte, len(buf))
	fill(want)
	got := buf
	if kind == fep.OpFetchAtomic {
		got = result
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%v: the data is wrong", kind)
	}
	return nil
}
