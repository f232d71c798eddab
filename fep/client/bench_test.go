package client_test

import (
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
)

// BenchmarkPingPong is a round trip of 8 bytes between two processes, all of it in one process: rings, bells, FEPs and links.
func BenchmarkPingPong(b *testing.B) {
	for _, mode := range []string{"sync", "real"} {
		b.Run(mode, func(b *testing.B) {
			f := fabric(b, attachtest.Config{Real: mode == "real", FEP: fep.Config{RTOInit: time.Second}})
			x, y := pair(b, f, client.DomainOptions{})
			ready := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			both(b, x, y, func(t testing.TB, p *proc) { pong(b, p, b.N, true, ready) }, func(t testing.TB, p *proc) { pong(b, p, b.N, false, ready) })
			b.StopTimer()
		})
	}
}

func pong(b *testing.B, p *proc, n int, first bool, ready chan struct{}) {
	m, err := p.d.Alloc(limit(b), 4096)
	if err != nil {
		b.Error(err)
		return
	}
	buf := m.Bytes()[:8]
	q, err := p.d.OpenCQ(limit(b), 0)
	if err != nil {
		b.Error(err)
		return
	}
	ep, err := p.d.OpenEndpoint(limit(b), client.EndpointConfig{AV: p.av, RxCQ: q, PID: 2})
	if err != nil {
		b.Error(err)
		return
	}
	a := ep.Addr()
	a.FA = attachtest.Addr(map[bool]int{true: 1, false: 0}[first])
	i, err := p.av.Insert(limit(b), a)
	if err != nil {
		b.Error(err)
		return
	}
	var cs [1]client.Completion
	wait := func() {
		if _, err := q.ReadWait(b.Context(), cs[:]); err != nil || cs[0].Err != nil {
			b.Error(err, cs[0].Err)
		}
	}
	if !first {
		_ = ep.TRecv(buf, client.AnySource, 1, 0, nil)
		if _, err := p.d.Stat(limit(b)); err != nil {
			b.Error(err)
		}
		close(ready)
	} else {
		p.d.Outside(func() { <-ready })
	}
	before := p.d.Now()
	for k := range n {
		if first {
			_ = ep.TRecv(buf, client.AnySource, 1, 0, nil)
			_ = ep.TSend(buf, i, 1, nil)
			wait()
			continue
		}
		wait()
		if k < n-1 {
			_ = ep.TRecv(buf, client.AnySource, 1, 0, nil)
		}
		_ = ep.TSend(buf, i, 1, nil)
	}
	if first {
		b.ReportMetric(float64(p.d.Now()-before)/float64(n), "virtual-ns/op")
	} else { // what was sent last leaves while we wait
		_ = p.d.Sleep(limit(b), 10*time.Microsecond)
	}
}

// BenchmarkPost is what a process pays for an operation: a wave of writes, then their completions.
func BenchmarkPost(b *testing.B) {
	f := fabric(b, attachtest.Config{})
	x, y := pair(b, f, client.DomainOptions{})
	var wg sync.WaitGroup
	wg.Go(func() {
		m, _ := y.d.Alloc(limit(b), 4096)
		if _, err := y.ep.RegisterMR(limit(b), m.Bytes(), client.MRConfig{Key: 9, Access: client.RemoteWrite}); err != nil {
			b.Error(err)
		}
		_ = y.d.Sleep(limit(b), time.Hour-time.Second) // of virtual time: it comes when all else is done
		y.d.Close()
	})
	m, _ := x.d.Alloc(limit(b), 4096)
	_ = x.d.SleepUntil(limit(b), start)
	buf := m.Bytes()[:8]
	cs := make([]client.Completion, 256)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		k := min(200, b.N-done)
		for range k {
			if err := x.ep.Write(buf, 0, 9, 0, nil); err != nil {
				b.Fatal(err)
			}
		}
		for got := 0; got < k; {
			n, err := x.cq.ReadWait(b.Context(), cs)
			if err != nil || cs[0].Err != nil {
				b.Fatal(err, cs[0].Err)
			}
			got += n
		}
		done += k
	}
	b.StopTimer()
	x.d.Close()
	wg.Wait()
}
