package client_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
)

// limit is a guard against hanging, not a measure.
func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func fabric(t testing.TB, cfg attachtest.Config) *attachtest.Fabric {
	t.Helper()
	f, err := attachtest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// proc is an attached process with the usual objects.
type proc struct {
	d  *client.Domain
	cq *client.CQ
	av *client.AV
	ep *client.Endpoint
}

func attachTo(ctx context.Context, socket string, o client.DomainOptions, c client.EndpointConfig) (*proc, error) {
	fab, err := client.Open(socket)
	if err != nil {
		return nil, err
	}
	p := &proc{}
	if p.d, err = fab.Domain(ctx, o); err != nil {
		return nil, err
	}
	if p.cq, err = p.d.OpenCQ(ctx, 0); err != nil {
		return nil, err
	}
	if p.av, err = p.d.OpenAV(ctx); err != nil {
		return nil, err
	}
	c.AV, c.TxCQ, c.RxCQ = p.av, p.cq, p.cq
	p.ep, err = p.d.OpenEndpoint(ctx, c)
	return p, err
}

func join(t testing.TB, f *attachtest.Fabric, node int, o client.DomainOptions) *proc {
	t.Helper()
	p, err := attachTo(limit(t), f.Socket(node), o, client.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.d.Close() })
	return p
}

// one waits for one completion.
func (p *proc) one(t testing.TB) client.Completion {
	t.Helper()
	var c [1]client.Completion
	if n, err := p.cq.ReadWait(limit(t), c[:]); n != 1 || err != nil {
		t.Fatalf("completions: %d, %v", n, err)
	}
	return c[0]
}

func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// pair is two processes that know each other: index 0 is the other.
func pair(t testing.TB, f *attachtest.Fabric, o client.DomainOptions) (a, b *proc) {
	t.Helper()
	o.PID = 1
	a = join(t, f, 0, o)
	b = join(t, f, 1, o)
	for _, x := range [][2]*proc{{a, b}, {b, a}} {
		if i, err := x[0].av.Insert(limit(t), x[1].ep.Addr()); i != 0 || err != nil {
			t.Fatal(i, err)
		}
	}
	return a, b
}

// both runs a program for each of two processes, each in a goroutine of its own, as processes are.
func both(t testing.TB, a, b *proc, fa, fb func(t testing.TB, p *proc)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, x := range []struct {
		p *proc
		f func(testing.TB, *proc)
	}{{a, fa}, {b, fb}} {
		wg.Go(func() {
			x.f(t, x.p)
			x.p.d.Close() // or the FEP would wait for it
		})
	}
	wg.Wait()
}

func TestSendOfEverySizeAndKindOfMemory(t *testing.T) {
	for _, shared := range []bool{false, true} {
		f := fabric(t, attachtest.Config{})
		a, b := pair(t, f, client.DomainOptions{})
		sizes := []int{0, 1, 8, 4096, 4097, 100_000, 1 << 20}
		alloc := func(p *proc, n int) []byte {
			if !shared || n == 0 {
				return make([]byte, n)
			}
			m, err := p.d.Alloc(limit(t), n)
			if err != nil {
				t.Error(err)
			}
			return m.Bytes()
		}
		both(t, a, b, func(t testing.TB, p *proc) {
			for _, n := range sizes {
				src := alloc(p, n)
				copy(src, fill(n))
				if err := p.ep.TSend(src, 0, 5, "s"); err != nil {
					t.Error(err)
				}
				if c := p.one(t); c.Err != nil || c.Ctx != "s" {
					t.Errorf("%d bytes: %+v", n, c)
				}
			}
		}, func(t testing.TB, p *proc) {
			for _, n := range sizes {
				dst := alloc(p, n)
				if err := p.ep.TRecv(dst, 0, 5, 0, "r"); err != nil {
					t.Error(err)
				}
				if c := p.one(t); c.Err != nil || c.Ctx != "r" || c.Len != n || c.Src != 0 || c.Tag != 5 || !bytes.Equal(dst, fill(n)) {
					t.Errorf("%d bytes: %+v, equal %v", n, c, bytes.Equal(dst, fill(n)))
				}
			}
		})
		empty(t, f)
	}
}

// empty waits until all processes are gone, and looks that nothing of theirs is left.
func empty(t testing.TB, f *attachtest.Fabric) {
	t.Helper()
	for i := range f.Nodes() {
		var st client.Stat
		var work uint64
		for ctx := limit(t); ctx.Err() == nil; {
			f.Do(func() { st, work = f.Server(i).Stat(), f.Server(i).Work() })
			if st.Processes == 0 && work == 0 {
				break
			}
		}
		st.FreeCalls = 0
		if st != (client.Stat{}) || work != 0 {
			t.Errorf("node %d still holds %+v, work %d", i, st, work)
		}
	}
}
