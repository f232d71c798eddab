package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestDeliveryProperty sends messages of all modes and operations through random fabrics of 2 to 6 nodes that lose up to 30 % of
// their frames, repeat, delay, reorder and trim them, and have black holes that heal; some of the fabrics do not advance in
// the simulator's own steps but as clocks that are paused here and there would have them. Each message is delivered exactly once and
// byte for byte, or fails with the right error after the retry limit; in the end no PDC, frame, stored response or timer is
// left. UETLAB_PDS_SEEDS sets how many seeds are tried, UETLAB_PDS_SEED the first one.
func TestDeliveryProperty(t *testing.T) {
	env := func(name string, v uint64) uint64 {
		if s := os.Getenv(name); s != "" {
			var err error
			if v, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		return v
	}
	seeds := env("UETLAB_PDS_SEEDS", 300)
	first := env("UETLAB_PDS_SEED", rand.Uint64()>>1)
	var all fep.Counters
	var done, failed, paused uint64
	for seed := first; seed < first+seeds; seed++ {
		d := deliverSeed(t, seed)
		for _, h := range d.hosts {
			for c, v := range d.f.nodes[h].FEP.C {
				all[c] += v
			}
		}
		done, failed = done+d.done, failed+d.failed
		if d.wandered {
			paused++
		}
	}
	t.Logf("%d seeds from %d on, %d with paused clocks: %d operations done, %d failed at a retry limit", seeds, first, paused, done, failed)
	for c, v := range all {
		if v > 0 {
			t.Logf("%20s %12d", fep.Counter(c), v)
		}
	}
	for _, c := range []fep.Counter{fep.RetxRTO, fep.RetxNack, fep.RetxTrim, fep.RetxInfer, fep.RetxEV, fep.RetxProbe, fep.RetxGoBack, fep.RTOExhausted,
		fep.RODDrop, fep.DupRx, fep.RUDIRetx, fep.UUDRx, fep.UUDDrop, fep.ReadsRx, fep.Paused} {
		if seeds >= 300 && all[c] == 0 {
			t.Errorf("%s is 0: the test does not reach it", c)
		}
	}
}

// delivery is one fabric with its operations.
type delivery struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	plan     *topology.Plan
	f        *Fabric
	hosts    []int
	eps      []*fep.Endpoint // for reliable operations, by host
	grams    []*fep.Endpoint // for datagrams
	ops      []*operation
	posted   int
	order    map[flow]int // the latest ordered message that came, by the order of posting
	what     string       // for messages
	limited  bool         // retransmissions have a limit
	within   int          // ns in which all operations are posted
	favoured []string     // modes
	wandered bool
	done     uint64
	failed   uint64
}

type operation struct {
	kind     fep.Kind
	from, to int
	mode     string
	src, dst []byte
	tc       uint8
	posted   int // how many were before it
	sent     int // completions at the initiator
	recv     int // at the target
	sentErr  error
	recvErr  error
	length   int // of the receive
	took     time.Duration
}

// flow is a sequence that keeps its order.
type flow struct {
	from, to int
	tc       uint8
}

const deliveryJob = 9

func newDelivery(t *testing.T, seed uint64) *delivery {
	d := &delivery{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), order: map[flow]int{}}
	names := []string{"pair", "star-2", "star-3", "star-4", "star-5", "dumbbell-1", "dumbbell-2", "fat-tree-2x2x1", "fat-tree-2x2x1", "fat-tree-1x2x1"}
	name := names[d.rng.IntN(len(names))]
	s, err := topology.Generate(name)
	if err == nil {
		d.plan, err = topology.BuildPlan(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.hosts = hosts(d.plan)
	for i := range d.plan.Nodes {
		if n := &d.plan.Nodes[i]; n.Switch != nil {
			set := *n.Switch
			n.Switch = &set
			(&soak{t: t, rng: d.rng}).settings(&set)
		}
	}
	if d.f, err = New(d.plan, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	d.limited = d.rng.IntN(4) == 0
	d.within, d.favoured = 3_000_000, []string{"RUD", "ROD", "RUDI"}
	if d.rng.IntN(3) == 0 { // a burst, most of it in order
		d.within, d.favoured = 20_000, []string{"ROD", "ROD", "ROD", "RUD"}
	}
	d.what = fmt.Sprintf("%s, retry limits %v", name, d.limited)
	for _, h := range d.hosts {
		n := d.f.nodes[h]
		c := d.config(n.FEP.Config())
		d.congestion(h, &c)
		n.FEP = fep.New(n.Node, c)
	}
	for i := range d.hosts {
		d.open(i)
	}
	d.impair()
	for i := range 6 + d.rng.IntN(30) {
		d.post(i)
	}
	return d
}

// congestion draws congestion management, for two of three seeds: mostly one algorithm for all, sometimes one that its peers may
// not have.
func (d *delivery) congestion(host int, c *fep.Config) {
	r := rand.New(rand.NewPCG(d.seed, 4))
	if r.IntN(3) == 0 {
		c.CC = nil
		return
	}
	if r.IntN(6) == 0 {
		r = rand.New(rand.NewPCG(d.seed, 5+uint64(host)))
	}
	c.LB = lb.Names()[r.IntN(len(lb.Names()))]
	a := cms.Algorithm(r.IntN(len(cms.Names())))
	if r.IntN(10) == 0 {
		c.LB = fep.LBSpray
	}
	c.CC = &cms.Config{Algorithm: a, Net: cms.Network{Rate: d.plan.Nodes[host].Ports[0].Rate, BaseRTT: d.plan.BaseRTT, Trimming: r.IntN(2) == 0}}
	c.CC.RCCC.Oversubs = r.IntN(4) == 0
	d.what += fmt.Sprintf(", %v with %s", a, c.LB)
}

// config draws the settings of an end point.
func (d *delivery) config(c fep.Config) fep.Config {
	r := d.rng
	sometimes := func() bool { return r.IntN(4) == 0 }
	c.MPR, c.AckGenTrigger, c.MaxAckData = uint8(1+r.IntN(8)), 1+r.IntN(32<<10), r.IntN(5000)
	c.NoInfer, c.InferEV, c.RcvrInfer = sometimes(), sometimes(), r.IntN(2)*(20+r.IntN(50))
	c.AckEvery, c.NoAckOnECN = sometimes(), sometimes()
	if c.LB = fep.LBSpray; r.IntN(2) == 0 {
		c.LB = fep.LBFixed
	}
	if sometimes() {
		c.Window = int64(5_000 + r.IntN(300_000))
	}
	if sometimes() {
		c.TailLossTime = time.Duration(10_000 + r.IntN(1_000_000))
	}
	if sometimes() {
		c.AnswerDelay = time.Duration(r.IntN(30_000))
	}
	if sometimes() {
		c.MaxPDCs = 3 + r.IntN(20)
	}
	if sometimes() {
		c.GtdSlots, c.MaxMessages, c.MaxRUDI = 1+r.IntN(8), 1+r.IntN(8), 1+r.IntN(8)
	}
	if sometimes() {
		c.PSNLimit = uint32(20 + r.IntN(200))
	}
	if sometimes() {
		c.IdleClose = time.Duration(1 + r.IntN(2_000_000))
	}
	c.MaxRTORetx, c.MaxNackRetx, c.RTOMax = fep.InfiniteRTO, fep.InfiniteNack, 20*time.Millisecond
	if d.limited {
		c.MaxRTORetx = 1 + r.IntN(5)
	}
	return c
}

// open makes the end points of host i and what they may receive.
func (d *delivery) open(i int) {
	f := d.f.nodes[d.hosts[i]].FEP
	d.eps = append(d.eps, f.OpenEndpoint(deliveryJob, 0, uint32(i), func(now vt.Time, c fep.Completion) { d.complete(i, now, c) }))
	g := f.OpenEndpoint(deliveryJob, 1, uint32(100+i), func(now vt.Time, c fep.Completion) { d.datagram(i, c) })
	d.grams = append(d.grams, g)
	for j, h := range d.hosts {
		addr := d.plan.Nodes[h].Addr4
		d.eps[i].InsertAddr(addr, 0, uint32(j))
		g.InsertAddr(addr, 1, uint32(100+j))
	}
}

// impair draws what is wrong with the links, until all heals after some milliseconds at the latest but for loss and the like, and
// where retransmissions have a limit sometimes not for long enough to reach it.
func (d *delivery) impair() {
	r := d.rng
	var list []faults.Fault
	most := []float64{0, 0.02, 0.3, 0.3}[r.IntN(4)]
	for id := range d.plan.Links {
		var s faults.Set
		loss, dup, reorder, jitter := r.Float64()*most, r.Float64()*0.05, r.Float64()*0.1, r.Int64N(3000)
		s.Loss, s.Duplicate, s.Reorder, s.JitterNs = &loss, &dup, &reorder, &jitter
		list = append(list, faults.Fault{At: t0, Link: id, From: faults.Both, Op: faults.Change, Set: s})
		if r.IntN(3) > 0 {
			continue
		}
		hole := faults.Fault{At: t0.Add(time.Duration(1 + r.IntN(3_000_000))), Link: id, From: faults.Both, Op: faults.Blackhole}
		if r.IntN(2) == 0 {
			hole.Op = faults.Fail
		}
		if r.IntN(3) == 0 {
			hole.From = d.plan.Links[id].A.Node
			hole.Op = faults.Blackhole
		}
		again := faults.Fault{At: hole.At.Add(time.Duration(1 + r.IntN(4_000_000))), Link: id, From: faults.Both, Op: faults.Restore}
		if d.limited && r.IntN(2) == 0 {
			again.At = hole.At.Add(300 * time.Millisecond)
		}
		loss2 := *s.Loss
		list = append(list, hole, again, faults.Fault{At: again.At + 1, Link: id, From: faults.Both, Op: faults.Change, Set: faults.Set{Loss: &loss2}})
	}
	batch, err := faults.New(d.plan).Schedule(list...)
	if err == nil {
		err = batch.Each(d.f.Change)
	}
	if err != nil {
		d.t.Fatalf("seed %d: %v", d.seed, err)
	}
}

// post schedules an operation at a random time; its receive is there before it.
func (d *delivery) post(i int) {
	r := d.rng
	n := r.IntN(60_000)
	if r.IntN(3) == 0 {
		n = r.IntN(10)
	}
	o := &operation{from: r.IntN(len(d.hosts)), to: r.IntN(len(d.hosts) - 1), tc: uint8(r.IntN(2)),
		kind: []fep.Kind{fep.OpTagSend, fep.OpTagSend, fep.OpWrite, fep.OpRead, fep.OpDatagram}[r.IntN(5)], mode: d.favoured[r.IntN(len(d.favoured))]}
	if o.to >= o.from {
		o.to++
	}
	if len(d.favoured) > 3 && r.IntN(3) > 0 {
		o.from, o.to, o.tc, o.kind = 0, 1, 0, fep.OpTagSend
	}
	if o.kind == fep.OpDatagram {
		n, o.mode = 8+r.IntN(1000), "UUD"
	} else if o.kind == fep.OpTagSend && o.mode == "RUDI" {
		o.mode = "RUD"
	}
	o.src, o.dst = make([]byte, n), make([]byte, n)
	for j := range o.src {
		o.src[j] = byte(r.Uint32())
	}
	d.ops = append(d.ops, o)
	me, you := d.eps[o.from], d.eps[o.to]
	remote := o.dst
	if o.kind == fep.OpRead {
		remote = o.src
	}
	key := uint64(0)
	switch {
	case o.kind == fep.OpWrite || o.kind == fep.OpRead:
		if key = you.Register(remote); o.mode == "RUDI" {
			key = you.RegisterIdempotent(remote)
		}
	case o.kind == fep.OpTagSend:
		d.call(o.to, t0-1, func(now vt.Time) error { return you.TagRecv(now, o.from, o.dst, uint64(i), uint64(i)) })
	default:
		binary.BigEndian.PutUint64(o.src, uint64(i))
		o.dst = make([]byte, 1024)
		d.call(o.to, t0-1, func(now vt.Time) error { return d.grams[o.to].Recv(now, o.dst, uint64(i)) })
	}
	d.call(o.from, t0.Add(time.Duration(r.IntN(d.within))), func(now vt.Time) error {
		me.SetOrdered(o.mode == "ROD")
		me.SetTC(o.tc)
		d.posted++
		o.posted = d.posted
		switch {
		case o.kind == fep.OpDatagram:
			return d.grams[o.from].Datagram(now, o.to, o.src, uint64(i))
		case o.kind == fep.OpTagSend:
			return me.TagSend(now, o.to, o.src, uint64(i), uint64(i))
		case o.kind == fep.OpWrite && o.mode == "RUDI":
			return me.WriteIdempotent(now, o.to, o.src, key, 0, uint64(i))
		case o.kind == fep.OpWrite:
			return me.Write(now, o.to, o.src, key, 0, uint64(i))
		case o.mode == "RUDI":
			return me.ReadIdempotent(now, o.to, o.dst, key, 0, uint64(i))
		}
		return me.Read(now, o.to, o.dst, key, 0, uint64(i))
	})
}

func (d *delivery) call(host int, at vt.Time, fn func(now vt.Time) error) {
	d.f.nodes[d.hosts[host]].Call(at, func(now vt.Time) {
		if err := fn(now); err != nil {
			d.t.Errorf("seed %d: %v", d.seed, err)
		}
	})
}

// complete notes the completion of a reliable operation.
func (d *delivery) complete(host int, now vt.Time, c fep.Completion) {
	o := d.ops[c.Ctx]
	if host == o.from && c.Kind == o.kind {
		o.sent++
		o.sentErr, o.took = c.Err, c.Acked.Sub(c.Posted)
		return
	}
	o.recv++
	o.recvErr, o.length = c.Err, c.Len
	if host != o.to || c.Kind != fep.OpTagRecv {
		d.t.Errorf("seed %d: op %d completes at host %d: %+v", d.seed, c.Ctx, host, c)
	}
	if o.mode == "ROD" && c.Err == nil {
		way := flow{o.from, o.to, o.tc}
		if o.posted < d.order[way] {
			d.t.Errorf("seed %d: op %d, ordered, comes out of order from %d to %d", d.seed, c.Ctx, o.from, o.to)
		}
		d.order[way] = o.posted
	}
}

// datagram checks one that came: the receives of a host take them in any order.
func (d *delivery) datagram(host int, c fep.Completion) {
	o := d.ops[c.Ctx]
	if c.Kind == fep.OpDatagram {
		o.sent++
		o.sentErr = c.Err
		return
	}
	got := o.dst[:c.Len]
	if c.Err != nil || c.Len < 8 || binary.BigEndian.Uint64(got) >= uint64(len(d.ops)) {
		d.t.Errorf("seed %d: datagram %+v", d.seed, c)
		return
	}
	src := d.ops[binary.BigEndian.Uint64(got)]
	if src.to != host || src.kind != fep.OpDatagram || !bytes.Equal(src.src, got) {
		d.t.Errorf("seed %d: a datagram has other contents", d.seed)
	}
}

// run plays everything to its end, part of it as paused clocks would have it.
func (d *delivery) run(paused bool) {
	if d.wandered = paused; paused {
		wander(d.f, d.rng, t0.Add(2*time.Millisecond), func() bool { return false })
	}
	for steps := 0; d.f.step(vt.Time(time.Hour)); steps++ {
		if steps > 50_000_000 {
			break
		}
	}
}

// check looks at every operation, and for anything that is left.
func (d *delivery) check() {
	for i, o := range d.ops {
		d.checkOp(i, o, d.gaveUp(o.from) || d.gaveUp(o.to) || d.limited && o.took >= d.patience(o.from)) // the last: its link was down
	}
	if n := d.f.mem.Pool.Out(); n != 0 {
		d.t.Errorf("seed %d: %d frames are left", d.seed, n)
	}
	for i, h := range d.hosts {
		f := d.f.nodes[h].FEP
		if r := f.PDS().Residue(); r != "" {
			d.t.Errorf("seed %d: host %d: left in packet delivery: %s", d.seed, i, r)
		}
		if f.C[fep.GtdInUse] != 0 || f.C[fep.PDCsOpen] != 0 {
			d.t.Errorf("seed %d: host %d: %d stored responses, %d PDCs", d.seed, i, f.C[fep.GtdInUse], f.C[fep.PDCsOpen])
		}
		if next := d.f.nodes[h].Next(); next != vt.Never {
			d.t.Errorf("seed %d: host %d: something is still to happen, at %v", d.seed, i, next)
		}
	}
}

// gaveUp says whether an end point ended a PDC since a retry limit was reached, or since the peer did not close it when it was
// asked to: a target that needs the room waits for that for Close_REQ_Time only.
func (d *delivery) gaveUp(host int) bool {
	c := &d.f.nodes[d.hosts[host]].FEP.C
	return d.limited && c[fep.RTOExhausted] > 0 || c[fep.CloseTimeout] > 0
}

// patience is how long a packet of a host is tried.
func (d *delivery) patience(host int) time.Duration {
	return d.f.nodes[d.hosts[host]].FEP.PDS().Config().Patience()
}

func (d *delivery) checkOp(i int, o *operation, gaveUp bool) {
	bad := func(format string, args ...any) {
		d.t.Errorf("seed %d: op %d, %s %v of %d bytes from %d to %d: %s", d.seed, i, o.mode, o.kind, len(o.src), o.from, o.to, fmt.Sprintf(format, args...))
	}
	if o.sent != 1 || o.recv > 1 {
		bad("%d completions at the initiator, %d at the target", o.sent, o.recv)
		return
	}
	if o.kind == fep.OpDatagram {
		var e *fep.PDCError // its link was down for so long that it was never sent
		if o.sentErr != nil && !(d.limited && errors.As(o.sentErr, &e) && e.Code == 0) {
			bad("%v", o.sentErr)
		}
		return
	}
	if o.sentErr != nil {
		d.failed++
		d.checkError(o, gaveUp, bad)
	} else {
		d.done++
		if o.kind == fep.OpTagSend && (o.recv != 1 || o.recvErr != nil || o.length != len(o.src)) {
			bad("sent, but %d receives of %d bytes, %v", o.recv, o.length, o.recvErr)
		}
	}
	if (o.sentErr == nil || o.recv == 1 && o.recvErr == nil) && !bytes.Equal(o.src, o.dst) {
		bad("contents differ")
	}
}

// checkError says whether an operation may have failed like this: nobody answered for as long as a packet is tried, or the peer has
// given up the PDC for that reason.
func (d *delivery) checkError(o *operation, gaveUp bool, bad func(string, ...any)) {
	var e *fep.PDCError
	codes := []wire.NackCode{0, wire.NackClosing, wire.NackClosingInErr, wire.NackInvDPDCID}
	switch {
	case o.kind == fep.OpRead && errors.Is(o.sentErr, fep.ErrNoData):
		if !gaveUp {
			bad("its data stays away, and no retry limit was reached")
		}
	case !errors.As(o.sentErr, &e):
		bad("fails with %v", o.sentErr)
	case !gaveUp:
		bad("fails with %v, and no retry limit was reached", e)
	case !slices.Contains(codes, e.Code):
		bad("fails with %v", e)
	case o.recvErr != nil && !errors.Is(o.recvErr, fep.ErrAborted):
		bad("its receive fails with %v", o.recvErr)
	case e.Code == 0 && o.mode == "RUDI" && o.took < d.patience(o.from):
		bad("fails after %v already", o.took)
	}
}

// dump logs what every end point has counted, and the PDCs that are left.
func (d *delivery) dump() {
	for i, h := range d.hosts {
		f, text := d.f.nodes[h].FEP, ""
		for c, v := range f.C {
			if v > 0 {
				text += fmt.Sprintf(" %v=%d", fep.Counter(c), v)
			}
		}
		d.t.Logf("host %d:%s", i, text)
		for _, p := range f.PDCs(nil) {
			d.t.Logf("host %d: %+v", i, p)
		}
	}
}
