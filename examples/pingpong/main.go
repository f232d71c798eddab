// Command pingpong bounces a message between two nodes of a lab and prints how long that takes: the smallest program that
// does something with a FEP. Start the end that answers first:
//
//	uetlab exec host1 -- $PWD/bin/pingpong -peer 10.0.0.1
//	uetlab exec host0 -- $PWD/bin/pingpong -peer 10.0.0.2 -first
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
)

var (
	peer  = flag.String("peer", "", "fabric `address` of the other node (uetlab inspect shows them)")
	first = flag.Bool("first", false, "begin, and measure")
	size  = flag.Int("size", 8, "`bytes` of a message")
	count = flag.Int("count", 10, "how many round trips")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("pingpong: ")
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// run opens an endpoint, sets the two buffers up, and plays.
func run(ctx context.Context) error {
	at, err := netip.ParseAddr(*peer)
	if err != nil {
		return fmt.Errorf("-peer: %w", err)
	}
	fabric, err := client.Open("") // the FEP of the node that we run in
	if err != nil {
		return err
	}
	domain, err := fabric.Domain(ctx, client.DomainOptions{PID: 1})
	if err != nil {
		return err
	}
	defer domain.Close() // and with it all that follows
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
	other := ep.Addr() // the same endpoint, at the other node
	other.FA = at
	if _, err := av.Insert(ctx, other); err != nil {
		return err
	}
	mem, err := domain.Alloc(ctx, 2*(*size)) // shared with the FEP: nothing is copied
	if err != nil {
		return err
	}
	out, in := mem.Bytes()[:*size], mem.Bytes()[*size:]
	return play(ctx, domain, cq, ep, out, in)
}

// play sends and receives in turn. A receive is posted before the message that it is for can come.
func play(ctx context.Context, domain *client.Domain, cq *client.CQ, ep *client.Endpoint, out, in []byte) error {
	send := client.Op{Kind: fep.OpSend, Peer: 0, Buf: out}
	begin := domain.Now()
	if err := ep.Recv(in, client.AnySource, nil); err != nil {
		return err
	}
	for round := range *count {
		if *first {
			if _, err := ep.Do(ctx, &send); err != nil { // acknowledged: the buffer is ours again
				return err
			}
		}
		var done [1]client.Completion
		if _, err := cq.ReadWait(ctx, done[:]); err != nil {
			return err
		}
		if done[0].Err != nil {
			return done[0].Err
		}
		if round+1 < *count {
			if err := ep.Recv(in, client.AnySource, nil); err != nil {
				return err
			}
		}
		if !*first {
			if _, err := ep.Do(ctx, &send); err != nil {
				return err
			}
		}
	}
	if *first {
		fmt.Printf("%d bytes, %d round trips, %v each\n", *size, *count, (domain.Now()-begin)/time.Duration(*count))
	}
	return nil
}
