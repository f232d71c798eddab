package client_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/wire"
)

// two attaches a process at each of two nodes, runs their programs, and waits for both. In a lab each would be a process of its own, started
// with `uetlab exec host0 -- program`, that calls client.Open("").
func two(programs ...func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error) {
	f, err := attachtest.New(attachtest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	var wg sync.WaitGroup
	defer wg.Wait()
	begin := make(chan struct{})
	defer close(begin) // time stands still until all are attached and one of them waits
	for i, program := range programs {
		d, cq, ep, err := open(ctx, f.Socket(i), 1-i)
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			defer d.Close()
			<-begin
			if err := program(ctx, d, cq, ep); err != nil {
				log.Print(err)
			}
		})
	}
}

// open attaches as PIDonFEP 1 and opens an endpoint that knows the other node's as index 0.
func open(ctx context.Context, socket string, other int) (*client.Domain, *client.CQ, *client.Endpoint, error) {
	fab, err := client.Open(socket)
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := fab.Domain(ctx, client.DomainOptions{PID: 1})
	if err != nil {
		return nil, nil, nil, err
	}
	cq, err := d.OpenCQ(ctx, 64)
	if err != nil {
		return nil, nil, nil, err
	}
	av, err := d.OpenAV(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	ep, err := d.OpenEndpoint(ctx, client.EndpointConfig{AV: av, TxCQ: cq, RxCQ: cq})
	if err != nil {
		return nil, nil, nil, err
	}
	peer := ep.Addr() // the same, at the other node
	peer.FA = attachtest.Addr(other)
	_, err = av.Insert(ctx, peer)
	return d, cq, ep, err
}

// A tagged message of 1 MiB over 400 Gb/s and 500 ns. Virtual time does not depend on how fast the machine is.
func Example() {
	two(func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error {
		mem, err := d.Alloc(ctx, 1<<20)
		if err != nil {
			return err
		}
		if err := d.SleepUntil(ctx, time.Millisecond); err != nil { // by then the receiver is there
			return err
		}
		if err := ep.TSend(mem.Bytes(), 0, 7, nil); err != nil {
			return err
		}
		var cs [1]client.Completion
		if _, err := cq.ReadWait(ctx, cs[:]); err != nil {
			return err
		}
		fmt.Println("acknowledged after", cs[0].Acked-cs[0].Posted)
		return cs[0].Err
	}, func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error {
		buf := make([]byte, 1<<20)
		if err := ep.TRecv(buf, client.AnySource, 7, 0, "first"); err != nil {
			return err
		}
		var cs [1]client.Completion
		if _, err := cq.ReadWait(ctx, cs[:]); err != nil {
			return err
		}
		fmt.Println("received", cs[0].Len, "bytes for", cs[0].Ctx)
		return cs[0].Err
	})
	// Output:
	// received 1048576 bytes for first
	// acknowledged after 22.62µs
}

// A counter in the memory of another process, which sleeps all the while.
func ExampleEndpoint_FetchAtomic() {
	two(func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error {
		if err := d.SleepUntil(ctx, time.Millisecond); err != nil {
			return err
		}
		old, five := make([]byte, 8), binary.LittleEndian.AppendUint64(nil, 5)
		for range 3 {
			op := &client.Op{Kind: fep.OpFetchAtomic, Atomic: wire.AtomicSum, Type: wire.AtomicUint64, Buf: five, Result: old, Key: 42}
			if _, err := ep.Do(ctx, op); err != nil {
				return err
			}
			fmt.Println("before:", binary.LittleEndian.Uint64(old))
		}
		return nil
	}, func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error {
		mem, err := d.Alloc(ctx, 8)
		if err != nil {
			return err
		}
		if _, err := ep.RegisterMR(ctx, mem.Bytes(), client.MRConfig{Key: 42, Access: client.RemoteRead | client.RemoteWrite | client.RemoteAtomic}); err != nil {
			return err
		}
		if err := d.SleepUntil(ctx, 2*time.Millisecond); err != nil {
			return err
		}
		fmt.Println("in the end:", binary.LittleEndian.Uint64(mem.Bytes()))
		return nil
	})
	// Output:
	// before: 0
	// before: 5
	// before: 10
	// in the end: 15
}

// Work takes virtual time only if the program says so.
func ExampleDomain_Compute() {
	two(func(ctx context.Context, d *client.Domain, cq *client.CQ, ep *client.Endpoint) error {
		before := d.Now()
		time.Sleep(time.Millisecond) // of the wall
		fmt.Println(d.Now() - before)
		if err := d.Compute(ctx, 3*time.Microsecond); err != nil {
			return err
		}
		fmt.Println(d.Now() - before)
		return nil
	})
	// Output:
	// 0s
	// 3µs
}
