package sim

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

// TestConservation sends packets through random fabrics with random settings of their switches, random impairments and
// random link failures. Every frame that is sent over a line arrives or is counted under the reason why not, every frame that
// reaches a switch leaves it or is counted, and no frame is left over. UETLAB_SOAK_HOPS sets how many packet-hops are
// tried, UETLAB_SOAK_SEED repeats a failure.
func TestConservation(t *testing.T) {
	want := uint64(2_000_000)
	if v := os.Getenv("UETLAB_SOAK_HOPS"); v != "" {
		var err error
		if want, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	if v := os.Getenv("UETLAB_SOAK_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var total soak
	for fabrics := uint64(0); total.c[link.RxFrames] < want; fabrics++ {
		if s := newSoak(t, seed+fabrics); !s.run() {
			t.Fatalf("repeat with UETLAB_SOAK_SEED=%d", s.seed)
		} else {
			for c, v := range s.c {
				total.c[c] += v
			}
			total.runs += s.runs
			total.wrong += s.wrong
		}
	}
	t.Logf("%d packet-hops in %d runs, of which %d did not end; what became of the others:", total.c[link.RxFrames], total.runs, total.wrong)
	for c, v := range total.c {
		if c := link.Counter(c); v > 0 && !c.IsGauge() {
			t.Logf("%20s %10d", c, v)
		}
	}
	for _, c := range []link.Counter{link.DropQueue, link.Trimmed, link.Marked, link.DropDown, link.DropCut, link.DropLoss, link.DropBurst, link.DropBlack, link.DropFCS, link.TxTwice} {
		if total.c[c] == 0 && want >= 2_000_000 {
			t.Errorf("%s is 0: the test does not reach it", c)
		}
	}
}

type soak struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	plan  *topology.Plan
	f     *Fabric
	c     link.Counters // of all ports
	runs  int
	wrong int
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
	names := []string{"star-4", "star-9", "dumbbell-3", "fat-tree-2x2", "fat-tree-2x4", "fat-tree-4x4x4", "fat-tree-k4"}
	spec, err := topology.Generate(names[s.rng.IntN(len(names))])
	if err != nil {
		t.Fatal(err)
	}
	if s.plan, err = topology.BuildPlan(spec); err != nil {
		t.Fatal(err)
	}
	for i := range s.plan.Nodes {
		if n := &s.plan.Nodes[i]; n.Kind == topology.KindSwitch {
			set := *n.Switch
			n.Switch = &set
			s.settings(&set)
		}
	}
	manage := rand.New(rand.NewPCG(seed, 2))
	if cc, lb := cms.Names()[manage.IntN(len(cms.Names()))], lb.Names()[manage.IntN(len(lb.Names()))]; manage.IntN(2) == 0 {
		for i := range s.plan.Nodes {
			if n := &s.plan.Nodes[i]; n.FEP != nil {
				n.FEP = &topology.FEPConfig{CC: cc, LB: lb, Window: n.FEP.Window, CSIG: n.FEP.CSIG, AckEach: manage.IntN(2) == 0}
			}
		}
	}
	if s.f, err = New(s.plan, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return s
}

func pick[T any](s *soak, list ...T) T { return list[s.rng.IntN(len(list))] }

// settings changes a switch's settings by chance.
func (s *soak) settings(set *switchd.Settings) {
	data := &set.Queues[1]
	data.Limit = pick(s, data.Limit, 20_000, 100_000)
	data.Kmin, data.Kmax = data.Limit/5, data.Limit*4/5
	set.Trim.Enabled = s.rng.IntN(4) > 0
	set.Trim.RetxLimit = data.Limit * 3 / 2
	set.Trim.Coin = s.rng.IntN(3) == 0
	set.Trim.Size = pick(s, 64, 64, 128, 256)
	set.Trim.FixIP = s.rng.IntN(8) > 0
	if s.rng.IntN(3) == 0 {
		set.Buffer.Shared = 300_000
		for q := range set.Queues {
			set.Queues[q].Alpha = pick(s, 0.5, 1, 8)
		}
	}
	set.ECMP.Balance = pick(s, switchd.BalanceHash, switchd.BalanceHash, switchd.BalanceFlowlet, switchd.BalanceAdaptive, switchd.BalanceRandom, switchd.BalanceRR)
	set.ECMP.Group = pick(s, switchd.GroupThreshold, switchd.GroupModulo, switchd.GroupResilient)
	set.ECMP.Weights = pick(s, switchd.WeightsEqual, switchd.WeightsRate)
}

// impairs draws what is wrong with a link.
func (s *soak) impairs() faults.Set {
	var set faults.Set
	some := func(p **float64, most float64) {
		if s.rng.IntN(3) == 0 {
			v := s.rng.Float64() * most
			*p = &v
		}
	}
	some(&set.Loss, 0.05)
	some(&set.BER, 1e-6)
	some(&set.Duplicate, 0.05)
	some(&set.Reorder, 0.05)
	if s.rng.IntN(3) == 0 {
		set.Burst = &link.Burst{ToBad: 0.005, ToGood: 0.2, LossBad: 0.8}
	}
	if s.rng.IntN(3) == 0 {
		ns, dist := s.rng.Int64N(2000), pick(s, link.Uniform, link.Normal, link.Exponential, link.Pareto)
		set.JitterNs, set.Dist = &ns, &dist
	}
	if s.rng.IntN(4) == 0 {
		set.Rate = new(float64)
		*set.Rate = 0.1 + 0.9*s.rng.Float64()
	}
	if s.rng.IntN(8) == 0 {
		set.Blackhole = new(bool)
		*set.Blackhole = true
	}
	ns := s.rng.Int64N(3000)
	set.DelayNs = &ns
	return set
}

// schedule draws faults for the run that begins at t0.
func (s *soak) schedule(t0 vt.Time) {
	state := faults.New(s.plan)
	var list []faults.Fault
	for range s.rng.IntN(12) {
		f := faults.Fault{At: t0.Add(time.Duration(1 + s.rng.IntN(20_000))), Link: s.rng.IntN(len(s.plan.Links)), From: faults.Both}
		if s.rng.IntN(3) == 0 {
			f.From = s.plan.Links[f.Link].A.Node
		}
		switch s.rng.IntN(4) {
		case 0:
			f.Op = faults.Fail
		case 1:
			f.Op, f.Flap = faults.Flap, faults.Times{DownNs: 1 + s.rng.Int64N(30_000), PeriodNs: 40_000 + s.rng.Int64N(60_000), Count: 1 + s.rng.IntN(5)}
		default:
			f.Op, f.Set = faults.Change, s.impairs()
		}
		again := f
		again.At, again.Op, again.From = f.Last().Add(time.Duration(1+s.rng.IntN(3_000_000))), faults.Restore, faults.Both
		list = append(list, f, again)
	}
	batch, err := state.Schedule(list...)
	if err == nil {
		err = batch.Each(s.f.Change)
	}
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
}

// run plays workloads and says whether everything is accounted for after each.
func (s *soak) run() bool {
	for range 3 {
		t0 := s.f.Now() + 1000
		w := spec(s.t, s.plan, pick(s, workload.Permutation, workload.Incast, workload.Alltoall, workload.Allreduce), 1+s.rng.Int64N(1_000_000), s.rng.Uint64())
		s.schedule(t0)
		res, err := s.f.Run(w, t0, Options{})
		if err != nil || res.Correct == nil || !*res.Correct {
			s.wrong++ // a rank whose peer could not be reached gives up; that is the end point's affair
		}
		for s.f.step(vt.Never - 1) { // retransmissions end, idle PDCs close, links come up again
		}
		s.runs++
		if !s.conserved() {
			return false
		}
	}
	for _, n := range s.f.nodes {
		for _, p := range n.Ports {
			for c, v := range p.C {
				s.c[c] += v
			}
		}
	}
	return true
}

// conserved checks every line and every switch.
func (s *soak) conserved() bool {
	ok := true
	fail := func(format string, args ...any) {
		s.t.Errorf("seed %d, run %d: "+format, append([]any{s.seed, s.runs}, args...)...)
		ok = false
	}
	if n := s.f.mem.Pool.Out(); n != 0 {
		fail("%d frames are lost", n)
	}
	for i, n := range s.f.nodes {
		var sum link.Counters
		for j, p := range n.Ports {
			q := s.plan.Nodes[i].Ports[j]
			there := s.f.nodes[q.Peer].Ports[q.PeerIdx].C
			out := p.C[link.TxFrames] + p.C[link.TxTwice]
			in := there[link.RxFrames] + there[link.DropCut] + there[link.DropFCS] + p.C[link.DropBlack] + p.C[link.DropLoss] + p.C[link.DropBurst]
			if out != in {
				fail("%s %s: %d frames sent, %d accounted for", s.plan.Nodes[i].Name, q.Name, out, in)
			}
			if p.QueueLen() != 0 || p.Backlog() != 0 {
				fail("%s %s: %d frames wait", s.plan.Nodes[i].Name, q.Name, p.QueueLen())
			}
			for c, v := range p.C {
				sum[c] += v
			}
		}
		if n.Switch == nil {
			continue
		}
		in := sum[link.RxFrames] - sum[link.PauseRx] + sum[link.PauseTx] + sum[link.Mirrored]
		out := sum[link.TxFrames]
		for _, c := range []link.Counter{link.DropQueue, link.DropTrim, link.DropWatchdog, link.DropDown, link.DropTTL, link.DropNoRoute, link.DropPacket} {
			out += sum[c]
		}
		if in != out {
			fail("%s: %d frames in, %d out and accounted for", s.plan.Nodes[i].Name, in, out)
		}
		if st := n.Switch.Status(n.Now()); st.Buffer.Used != 0 {
			fail("%s: %d bytes of its buffer are still in use", s.plan.Nodes[i].Name, st.Buffer.Used)
		}
	}
	return ok
}
