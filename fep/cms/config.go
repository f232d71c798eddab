package cms

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Network is what all defaults are derived from (uet-cms.md 2.1).
type Network struct {
	Rate     int64         // bit/s of the own link
	PeerRate int64         // bit/s of the peer's link, 0: Rate
	BaseRTT  time.Duration // config_base_rtt: a full packet out and its ACK back, on the longest path, without queues
	MTU      int           // nominal bytes of a full packet
	MSS      int           // bytes of a packet in the gains of NSCC; 0: MTU. htsim takes the payload there
	Trimming bool          // switches trim what does not fit
}

// BDP is what fits into the path, in bytes: the slower link's rate x base RTT.
func (n *Network) BDP() float64 {
	r := n.Rate
	if n.PeerRate > 0 {
		r = min(r, n.PeerRate)
	}
	return float64(r) * n.BaseRTT.Seconds() / 8
}

// TargetQDelay is the queueing delay that is aimed at: 0.75 base RTT with trimming, else 1 base RTT.
func (n *Network) TargetQDelay() time.Duration {
	if n.Trimming {
		return n.BaseRTT * 3 / 4
	}
	return n.BaseRTT
}

// HtsimRTO is the constant retransmission timeout that htsim gives to a path with switch queues of so many bytes (uet-cms.md 10).
func (n *Network) HtsimRTO(queue int64) time.Duration {
	return 15*time.Microsecond + time.Duration(6*8e9*float64(queue)/float64(n.Rate))
}

func (n *Network) check() error {
	return errors.Join(
		within("Net.Rate", float64(n.Rate), 1e3, 1e13),
		within("Net.PeerRate", float64(n.PeerRate), 0, 1e13),
		within("Net.BaseRTT", n.BaseRTT.Seconds(), 1e-8, 1e2),
		within("Net.MTU", float64(n.MTU), 64, 65535),
		within("Net.MSS", float64(n.MSS), 1, 65535))
}

// Config fixes the contexts of a FEP. Zero values stand for the defaults that the comments name; Resolve puts them in. Only the
// parameters of the algorithm that is chosen matter. Resolve it once.
type Config struct {
	Algorithm Algorithm
	Net       Network
	NSCC      NSCC
	RCCC      RCCC // of AlgEQDS as well
	DCTCP     DCTCP
	MPRDMA    MPRDMA
	Swift     Swift // of AlgUCCL as well
	DCQCN     DCQCN
	Window    int64 // of AlgFixed, bytes; 0: 1.5 BDP

	NoTrim bool // a NACK of a trimmed packet says no more than a loss
	NoECN  bool // marks are not seen
	NoRTT  bool // ACKs give no RTT
}

// NSCC are the parameters of uet-cms.md 2.1. A gain that is negative is 0: the mechanism is off.
type NSCC struct {
	Variant Variant

	RefScale     float64       // slows the reference network down, for links at the wall's pace; 0: 1 (2.2)
	BaseBDP      int64         // bytes of the reference network, 0: 150 000
	RefRTT       time.Duration // of the reference network, 0: 12 us x RefScale
	MaxWnd       int64         // bytes, 0: 1.5 BDP; follows the base RTT down
	InitWnd      int64         // bytes, 0: MaxWnd
	TargetQDelay time.Duration // 0: 0.75 base RTT with trimming, else 1
	ScalingA     float64       // 0: BDP / BaseBDP
	ScalingB     float64       // 0: TargetQDelay / RefRTT
	Alpha        float64       // proportional increase, bytes per second of delay below target and RTT; 0: 4 a b MSS / TargetQDelay
	FI           float64       // fair increase, bytes per RTT; 0: 5 MSS a
	FIScale      float64       // fast increase, bytes per byte; 0: 0.25 a
	FastDelay    time.Duration // below it a path counts as idle, 0: 1 us x RefScale
	Eta          float64       // bytes per AdjustPeriod; 0: 0.15 MSS a
	Gamma        float64       // multiplicative decrease; 0: 0.8
	MaxMDJump    float64       // smallest factor of a decrease, 0: 0.5
	AdjustBytes  int64         // 0: 8 MTU
	AdjustPeriod time.Duration // 0: base RTT
	QAGate       int           // 0: 3; Quick Adapt acts below MaxWnd / 2^QAGate
	QAThreshold  time.Duration // 0: 4 TargetQDelay; with trimming none
	NoQuickAdapt bool          // disable_quick_adapt
	AckTrigger   int64         // ACK_Gen_Trigger of the destination, bytes, 0: 16 KiB
}

// RCCC are the parameters of uet-cms.md 7.
type RCCC struct {
	MaxWnd   int64         // bytes of credit that a source may hold, also its speculative start; 0: 1.5 BDP (EQDS: 1 BDP)
	Grant    int           // bytes of a grant, 0: 4 MTU
	Share    float64       // of the link's rate that is granted, 0: 0.99
	Timer    time.Duration // demand of a source that does not react is forgotten, and a starved source asks; 0: 4 base RTT
	NoSlow   bool          // no unasked credit for idle sources
	Oversubs bool          // oversubscription control: the rate follows trims and marks from inside the fabric
}

// DCTCP takes per-RTT fractions of marked bytes, or htsim's form per ACK.
type DCTCP struct {
	Htsim  bool    // unmarked + acked MTU/cwnd, marked - acked/3
	G      float64 // weight of a round in the average, 0: 1/16
	MaxWnd int64   // bytes, 0: 1.5 BDP; also where it starts
}

// MPRDMA changes the window with every ACK.
type MPRDMA struct {
	Cut    float64 // bytes less per marked byte; 0: 0.5, of the paper. The REPS artifact has 0.25
	MaxWnd int64   // bytes, 0: 1.5 BDP; also where it starts
}

// Swift aims at a round-trip time. UCCL's own constants are the defaults of AlgUCCL.
type Swift struct {
	Target  time.Duration // RTT aimed at without the following two; 0: base RTT + TargetQDelay of the network, as NSCC has; UCCL: 50 us
	Hops    int           // switches on the path, each adds Target/6.55
	Range   time.Duration // flow scaling, the most that a small window adds; 0: 5 x TargetQDelay; UCCL, or negative: none
	AI      float64       // packets per RTT, 0: 1; UCCL: 8
	Beta    float64       // 0: 0.8
	MaxMDF  float64       // largest share taken off at once, 0: 0.5
	MinWnd  int64         // bytes, 0: 0.1 MTU; UCCL: 4 KiB. Below a packet the source is paced
	MaxWnd  int64         // bytes, 0: 1.5 BDP, or what fills Target if that is more; UCCL: 1 MiB
	InitWnd int64         // bytes, 0: 1.5 BDP within these bounds
}

// DCQCN is rate based. It has no window; queues that lose nothing are the fabric's business.
type DCQCN struct {
	G        float64       // 0: 1/256
	CNPEvery time.Duration // least time between notifications of a destination to a flow, 0: 50 us
	Timer    time.Duration // of increases and of the decay of alpha, 0: 55 us
	Bytes    int64         // … or after so many bytes, 0: 10 MB
	Fast     int           // stages of fast recovery, 0: 5
	AI       float64       // bit/s of an additive increase, 0: 1/20 of the link
	HAI      float64       // bit/s of a hyper increase, 0: 1/10 of the link
	MinRate  float64       // bit/s, 0: 1/1000 of the link
}

type number interface {
	~int | ~int64 | ~float64
}

func or[T number](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// gain is or with a way to say 0.
func gain[T number](v *T, def T) {
	or(v, def)
	*v = max(*v, 0)
}

func within(name string, v, lo, hi float64) error {
	if v >= lo && v <= hi {
		return nil
	}
	return fmt.Errorf("%s %g: outside %g..%g", name, v, lo, hi)
}

// Resolve puts the defaults in. It fails on values that mean nothing; the error names field and range. Durations are in seconds there.
func (c *Config) Resolve() error {
	or(&c.Net.MSS, c.Net.MTU)
	if err := c.Net.check(); err != nil {
		return err
	}
	if c.Algorithm >= algorithms {
		return fmt.Errorf("%v: is not known", c.Algorithm)
	}
	wnd := max(int64(1.5*c.Net.BDP()), int64(c.Net.MTU))
	or(&c.Window, wnd)
	or(&c.DCTCP.MaxWnd, wnd)
	or(&c.DCTCP.G, 1./16)
	or(&c.MPRDMA.MaxWnd, wnd)
	or(&c.MPRDMA.Cut, 0.5)
	c.resolveRCCC(wnd)
	c.resolveSwift(wnd)
	c.DCQCN.resolve(float64(c.Net.Rate))
	mtu, huge := float64(c.Net.MTU), 1e15
	return errors.Join(
		c.NSCC.resolve(&c.Net, wnd), c.checkRCCC(), c.checkSwift(), c.DCQCN.check(),
		within("Window", float64(c.Window), mtu, huge),
		within("DCTCP.MaxWnd", float64(c.DCTCP.MaxWnd), mtu, huge), within("DCTCP.G", c.DCTCP.G, 1e-6, 1),
		within("MPRDMA.MaxWnd", float64(c.MPRDMA.MaxWnd), mtu, huge), within("MPRDMA.Cut", c.MPRDMA.Cut, 0, 1))
}

func (p *NSCC) resolve(n *Network, wnd int64) error {
	mss := float64(n.MSS)
	or(&p.RefScale, 1)
	or(&p.BaseBDP, 150_000)
	or(&p.RefRTT, time.Duration(12_000*p.RefScale))
	or(&p.MaxWnd, wnd)
	or(&p.InitWnd, p.MaxWnd)
	or(&p.TargetQDelay, n.TargetQDelay())
	or(&p.ScalingA, n.BDP()/float64(p.BaseBDP))
	or(&p.ScalingB, p.TargetQDelay.Seconds()/p.RefRTT.Seconds())
	gain(&p.Alpha, 4*p.ScalingA*p.ScalingB*mss/p.TargetQDelay.Seconds())
	gain(&p.FI, 5*mss*p.ScalingA)
	gain(&p.FIScale, 0.25*p.ScalingA)
	gain(&p.FastDelay, time.Duration(1000*p.RefScale))
	gain(&p.Eta, 0.15*mss*p.ScalingA)
	gain(&p.Gamma, 0.8)
	or(&p.MaxMDJump, 0.5)
	or(&p.AdjustBytes, int64(8*n.MTU))
	or(&p.AdjustPeriod, n.BaseRTT)
	gain(&p.QAGate, 3)
	if n.Trimming && p.Variant&VarQAThreshold == 0 {
		or(&p.QAThreshold, math.MaxInt64)
	}
	or(&p.QAThreshold, 4*p.TargetQDelay)
	or(&p.AckTrigger, 16<<10)
	mtu, huge := float64(n.MTU), 1e15
	return errors.Join(
		within("NSCC.RefScale", p.RefScale, 1e-6, 1e9), within("NSCC.BaseBDP", float64(p.BaseBDP), 1, huge),
		within("NSCC.RefRTT", p.RefRTT.Seconds(), 1e-8, 1e4), within("NSCC.MaxWnd", float64(p.MaxWnd), mtu, huge),
		within("NSCC.InitWnd", float64(p.InitWnd), mtu, float64(p.MaxWnd)),
		within("NSCC.TargetQDelay", p.TargetQDelay.Seconds(), 1e-8, 1e3),
		within("NSCC.ScalingA", p.ScalingA, 0, 1e9), within("NSCC.ScalingB", p.ScalingB, 0, 1e9),
		within("NSCC.Alpha", p.Alpha, 0, huge), within("NSCC.FI", p.FI, 0, huge), within("NSCC.FIScale", p.FIScale, 0, 1e9),
		within("NSCC.Eta", p.Eta, 0, huge), within("NSCC.Gamma", p.Gamma, 0, 1), within("NSCC.MaxMDJump", p.MaxMDJump, 0, 1),
		within("NSCC.AdjustBytes", float64(p.AdjustBytes), 1, huge), within("NSCC.AdjustPeriod", p.AdjustPeriod.Seconds(), 1e-9, 1e4),
		within("NSCC.QAGate", float64(p.QAGate), 0, 30), within("NSCC.QAThreshold", p.QAThreshold.Seconds(), 0, math.MaxInt64/1e9+1),
		within("NSCC.AckTrigger", float64(p.AckTrigger), 0, huge))
}

func (c *Config) resolveRCCC(wnd int64) {
	p := &c.RCCC
	if c.Algorithm == AlgEQDS {
		or(&p.MaxWnd, max(int64(c.Net.BDP()), int64(c.Net.MTU)))
	}
	or(&p.MaxWnd, min(wnd, 1<<30))
	or(&p.Grant, 4*c.Net.MTU)
	or(&p.Share, 0.99)
	or(&p.Timer, 4*c.Net.BaseRTT)
}

func (c *Config) checkRCCC() error {
	p := &c.RCCC
	return errors.Join(
		within("RCCC.MaxWnd", float64(p.MaxWnd), float64(c.Net.MTU), 1<<30), // a quarter of what 24 bits count
		within("RCCC.Grant", float64(p.Grant), 256, 1<<30),
		within("RCCC.Share", p.Share, 0.01, 1),
		within("RCCC.Timer", p.Timer.Seconds(), 1e-9, 1e4))
}

func (c *Config) resolveSwift(wnd int64) {
	p := &c.Swift
	if c.Algorithm == AlgUCCL {
		or(&p.Target, 50*time.Microsecond)
		or(&p.Range, -1)
		or(&p.AI, 8)
		or(&p.MinWnd, 4<<10)
		or(&p.MaxWnd, 1<<20)
	}
	or(&p.Target, c.Net.BaseRTT+c.Net.TargetQDelay())
	gain(&p.Range, 5*c.Net.TargetQDelay())
	or(&p.AI, 1)
	or(&p.Beta, 0.8)
	or(&p.MaxMDF, 0.5)
	or(&p.MinWnd, int64(c.Net.MTU/10))
	or(&p.MaxWnd, max(wnd, int64(float64(c.Net.Rate)/8*p.Target.Seconds())))
	or(&p.InitWnd, min(max(wnd, p.MinWnd), p.MaxWnd))
}

func (c *Config) checkSwift() error {
	p := &c.Swift
	return errors.Join(
		within("Swift.Target", p.Target.Seconds(), 1e-9, 1e3), within("Swift.Hops", float64(p.Hops), 0, 255),
		within("Swift.Range", p.Range.Seconds(), 0, 1e3), within("Swift.AI", p.AI, 0, 1e6), within("Swift.Beta", p.Beta, 0, 1),
		within("Swift.MaxMDF", p.MaxMDF, 0, 1), within("Swift.MinWnd", float64(p.MinWnd), 1, 1e15),
		within("Swift.MaxWnd", float64(p.MaxWnd), float64(max(p.MinWnd, int64(c.Net.MTU))), 1e15),
		within("Swift.InitWnd", float64(p.InitWnd), float64(p.MinWnd), float64(p.MaxWnd)))
}

func (p *DCQCN) resolve(line float64) {
	or(&p.G, 1./256)
	or(&p.CNPEvery, 50*time.Microsecond)
	or(&p.Timer, 55*time.Microsecond)
	or(&p.Bytes, 10_000_000)
	or(&p.Fast, 5)
	or(&p.AI, line/20)
	or(&p.HAI, line/10)
	or(&p.MinRate, line/1000)
}

func (p *DCQCN) check() error {
	return errors.Join(
		within("DCQCN.G", p.G, 1e-9, 1), within("DCQCN.CNPEvery", p.CNPEvery.Seconds(), 0, 1e3),
		within("DCQCN.Timer", p.Timer.Seconds(), 1e-7, 1e3), within("DCQCN.Bytes", float64(p.Bytes), 1, 1e15),
		within("DCQCN.Fast", float64(p.Fast), 1, 1000), within("DCQCN.AI", p.AI, 0, 1e13), within("DCQCN.HAI", p.HAI, 0, 1e13),
		within("DCQCN.MinRate", p.MinRate, 1, 1e13))
}

// MaxWnd is the largest window of the algorithm, 0 if it has none. The configuration was resolved.
func (c *Config) MaxWnd() float64 {
	switch c.Algorithm {
	case AlgNSCC, AlgNSCCRCCC:
		return float64(c.NSCC.MaxWnd)
	case AlgRCCC, AlgEQDS:
		return float64(c.RCCC.MaxWnd)
	case AlgDCTCP:
		return float64(c.DCTCP.MaxWnd)
	case AlgMPRDMA:
		return float64(c.MPRDMA.MaxWnd)
	case AlgSwift, AlgUCCL:
		return float64(c.Swift.MaxWnd)
	case AlgDCQCN:
		return 0
	}
	return float64(c.Window)
}
