package topology

import (
	"time"

	"github.com/uetlab/uetlab/fep/lb"
)

// The keys of an end point's congestion management: of defaults.fep, of the nodes of a file, and of overrides of one run. Keys of
// numbers are the names of the fields of packages cms and lb, but for the case of letters, so that what these complain of finds its key.

const (
	maxWindow = int64(1) << 40 // bytes
	maxSecond = int64(100 * time.Second)
	maxFactor = 1e9
)

func bytesOf[T numeric](to *T, low int64) gauge[T] {
	return gauge[T]{to: to, measure: sizes, min: low, max: maxWindow}
}

func bytesOr0[T numeric](to *T) gauge[T] {
	return gauge[T]{to: to, measure: sizes, max: maxWindow, word: noBytes, wordIs: -1}
}

func timeOf(to *time.Duration) gauge[time.Duration] {
	return gauge[time.Duration]{to: to, measure: durations, min: 1, max: maxSecond}
}

func timeOr(to *time.Duration, word string) gauge[time.Duration] {
	return gauge[time.Duration]{to: to, measure: durations, min: 1, max: maxSecond, word: word, wordIs: -1}
}

func rateOf(to *float64) gauge[float64] {
	return gauge[float64]{to: to, measure: rates, min: 1, max: maxRate}
}

// managed are the keys that a run may override.
func (p *FEPParams) managed() []field {
	return []field{
		{key: "transport", doc: "What end points do: uet, or what RoCEv2 does: all in order, go-back-N, and unless said otherwise cc dcqcn, lb fixed and, under defaults, data in a lossless queue of switches.",
			def: TransportUET, to: word[string]{&p.Transport, []string{TransportUET, TransportRoCE}}},
		{key: "cc", doc: "Congestion control: nscc and rccc are the standard's; fixed is a window of constant size, and what a window without cc stands for.", def: DefaultCC, to: word[string]{&p.CC, ccWords}},
		{key: "lb", doc: "Load balancing: by feedback, as reps; or spray (a random entropy value per packet), fixed (one per PDC), mp-N (N of them in turn).", def: defaultLB, to: balancer{&p.LB}},
		{key: "ack", doc: "ACKs: coalesced (one in ackTrigger), or packet (one for each packet).", def: defaultACK, to: word[string]{&p.ACK, []string{defaultACK, "packet"}}},
		{key: "ackTrigger", doc: "Bytes that coalesced ACKs wait for (ACK_Gen_Trigger), 1KiB to 1MiB.", def: "16KiB", to: amount{to: &p.AckTrigger, bytesOnly: true, min: 1 << 10, max: 1 << 20}},
		{key: "window", doc: "Window of cc fixed: auto (1 plane BDP), bytes, or a percentage of the plane BDP.", def: "auto", to: amount{to: &p.Window, auto: true}},
		{key: "evs", doc: "Entropy values that a connection spreads over: a power of two, 1 to 65536; at most 4096 with bitmap, mixed and uccl.", def: "256", to: whole(&p.Balance.EVs, 1, 1<<16, false)},
		{key: "rto", doc: "Retransmission timeout: spec, 1 ms doubling, or htsim's constant 15us + 6 queues of a switch port at the own rate.", def: rtoSpec, to: word[string]{&p.RTO, []string{rtoSpec, rtoHtsim}}},
		{key: "pdc", doc: "PDCs: shared by messages to the same peer, or message: one for each that need not be in order, with a congestion control context of its own, as simulators have.",
			def: pdcShared, to: word[string]{&p.PDC, []string{pdcShared, pdcMessage}}},
		{key: "signals", doc: "What congestion management takes notice of; off shows what a signal does.", to: object{to: &p.Signals, name: "signals"}},
		{key: "csig", doc: "CSIG tag that it puts on its packets and reflects: off, compact or wide.", def: wordOff, to: fepCSIG(p)},
		{key: "nscc", doc: "Parameters of cc nscc and nscc+rccc.", to: object{to: &p.NSCC, name: "nscc"}},
		{key: "rccc", doc: "Parameters of cc rccc, nscc+rccc and eqds.", to: object{to: &p.RCCC, name: "rccc"}},
		{key: "dctcp", doc: "Parameters of cc dctcp.", to: object{to: &p.DCTCP, name: "dctcp"}},
		{key: "mprdma", doc: "Parameters of cc mprdma.", to: object{to: &p.MPRDMA, name: "mprdma"}},
		{key: "swift", doc: "Parameters of cc swift and uccl.", to: object{to: &p.Swift, name: "swift"}},
		{key: "dcqcn", doc: "Parameters of cc dcqcn.", to: object{to: &p.DCQCN, name: "dcqcn"}},
		{key: "reps", doc: "Parameters of lb reps and reps-legacy.", to: object{to: repsKeys{p.params()}, name: "reps"}},
		{key: "bitmap", doc: "Parameters of lb bitmap and mixed: what feedback adds to the score of its entropy value.", to: object{to: bitmapKeys{p.params()}, name: "bitmap"}},
		{key: "ecmp", doc: "Parameters of lb ecmp.", to: object{to: ecmpKeys{p.params()}, name: "fepEcmp"}},
		{key: "plb", doc: "Parameters of lb plb.", to: object{to: plbKeys{p.params()}, name: "plb"}},
		{key: "flowlet", doc: "Parameters of lb flowlet.", to: object{to: flowletKeys{p.params()}, name: "flowlet"}},
		{key: "uccl", doc: "Parameters of lb uccl.", to: object{to: ucclKeys{p.params()}, name: "uccl"}},
		{key: "mp", doc: "Parameters of lb mp.", to: object{to: mpKeys{p.params()}, name: "mp"}},
	}
}

func (p *SignalParams) fields() []field {
	return []field{
		{key: "ecn", doc: "Congestion marks.", def: wordOn, to: onOff{&p.ECN}},
		{key: "rtt", doc: "Round-trip times that ACKs give.", def: wordOn, to: onOff{&p.RTT}},
		{key: "trim", doc: "That a packet was trimmed; off: it counts as lost, and is sent again at once all the same.", def: wordOn, to: onOff{&p.Trim}},
		{key: "ooo", doc: "Packets that came out of order: losses are inferred from them; off: only timeouts find what was not trimmed.", def: wordOn, to: onOff{&p.OOO}},
		{key: "dfc", doc: "Destination flow control: ACKs ask for smaller windows when the room for messages without a receive fills up; off: they do not.", def: wordOn, to: onOff{&p.DFC}},
	}
}

func (p *NSCCParams) fields() []field {
	return []field{
		{key: "variant", doc: "spec, htsim, or what of htsim's differences is wanted, with commas between.", def: variantSpec, to: text{to: &p.Deviations, form: variantForm, why: "not a variant of NSCC", example: variantHtsim}},
		{key: "maxWnd", doc: "Largest window.", def: "1.5 BDP", to: bytesOf(&p.MaxWnd, 1)},
		{key: "initWnd", doc: "Window at the beginning.", def: "maxWnd", to: bytesOf(&p.InitWnd, 1)},
		{key: "targetQdelay", doc: "Queueing delay that is aimed at.", def: "0.75 base RTT with trimming, else 1", to: timeOf(&p.TargetQDelay)},
		{key: "alpha", doc: "Proportional increase, bytes per us of delay below the target and RTT.", def: "4 a b MSS / targetQdelay", to: factor[float64]{to: &p.Alpha, max: maxFactor, zero: true, scale: 1e6}},
		{key: "fi", doc: "Fair increase per RTT.", def: "5 MSS a", to: bytesOr0(&p.FI)},
		{key: "fiScale", doc: "Fast increase, bytes per byte acknowledged.", def: "0.25 a", to: factor[float64]{to: &p.FIScale, max: maxFactor, zero: true}},
		{key: "fastDelay", doc: "Delay below which a path counts as idle.", def: "1us", to: timeOr(&p.FastDelay, "0ns")},
		{key: "eta", doc: "Increase in every adjustPeriod.", def: "0.15 MSS a", to: bytesOr0(&p.Eta)},
		{key: "gamma", doc: "Multiplicative decrease, 0 to 1.", def: "0.8", to: factor[float64]{to: &p.Gamma, max: 1, zero: true}},
		{key: "maxMdJump", doc: "Smallest factor of one decrease.", def: "0.5", to: factor[float64]{to: &p.MaxMDJump, min: 0.001, max: 1}},
		{key: "adjustBytes", doc: "Bytes acknowledged after which increases take effect.", def: "8 MTU", to: bytesOf(&p.AdjustBytes, 1)},
		{key: "adjustPeriod", doc: "Time after which they do.", def: "base RTT", to: timeOf(&p.AdjustPeriod)},
		{key: "quickAdapt", doc: "Quick Adapt.", def: wordOn, to: onOff{&p.QuickAdapt}},
		{key: "qaGate", doc: "Quick Adapt acts where less than maxWnd / 2^qaGate arrived, 0 to 30.", def: "3", to: whole(&p.QAGate, 0, 30, true)},
		{key: "qaThreshold", doc: "Delay from which on it acts without a loss, or none.", def: "none with trimming, else 4 targetQdelay",
			to: gauge[time.Duration]{to: &p.QAThreshold, measure: durations, min: 1, max: maxSecond, word: "none", wordIs: 1<<63 - 1}},
		{key: "mss", doc: "Bytes of a packet in the gains, 64 to 65535.", def: "MTU", to: whole(&p.MSS, 64, 65535, false)},
		{key: "refScale", doc: "Slows the reference network down.", def: "1", to: factor[float64]{to: &p.RefScale, min: 1e-6, max: maxFactor}},
		{key: "baseBDP", doc: "Bytes that fill the reference network.", def: "150000B", to: bytesOf(&p.BaseBDP, 1)},
		{key: "refRTT", doc: "Its round-trip time.", def: "12us x refScale", to: gauge[time.Duration]{to: &p.RefRTT, measure: durations, min: 10, max: maxSecond}},
		{key: "scalingA", doc: "BDP in terms of the reference network.", def: "BDP / baseBDP", to: factor[float64]{to: &p.ScalingA, min: 1e-6, max: maxFactor}},
		{key: "scalingB", doc: "Target in terms of the reference network.", def: "targetQdelay / refRTT", to: factor[float64]{to: &p.ScalingB, min: 1e-6, max: maxFactor}},
	}
}

func (p *RCCCParams) fields() []field {
	return []field{
		{key: "maxWnd", doc: "Credit that a source may hold, also its speculative start, up to 1GiB.", def: "1.5 BDP, eqds 1 BDP", to: gauge[int64]{to: &p.MaxWnd, measure: sizes, min: 1, max: maxBytes}},
		{key: "grant", doc: "Bytes of one grant, 256B to 1GiB.", def: "4 MTU", to: gauge[int]{to: &p.Grant, measure: sizes, min: 256, max: maxBytes}},
		{key: "share", doc: "Share of the link's rate that is granted, 0.01 to 1.", def: "0.99", to: factor[float64]{to: &p.Share, min: 0.01, max: 1}},
		{key: "timer", doc: "After which a source that starves asks, and the demand of one that does not react is forgotten.", def: "4 base RTT", to: timeOf(&p.Timer)},
		{key: "slow", doc: "Unasked credit for idle sources.", def: wordOn, to: onOff{&p.Slow}},
		{key: "oversubscription", doc: "The rate of grants follows trims and marks from inside the fabric.", def: wordOff, to: onOff{&p.Oversubscription}},
	}
}

func (p *DCTCPParams) fields() []field {
	return []field{
		{key: "variant", doc: "spec, shares of marks in a round, or htsim, which reacts to every ACK.", def: variantSpec, to: word[string]{&p.Variant, []string{variantSpec, variantHtsim}}},
		{key: "g", doc: "Weight of a round in the average, 0.000001 to 1.", def: "0.0625", to: factor[float64]{to: &p.G, min: 1e-6, max: 1}},
		{key: "maxWnd", doc: "Largest window, and the first.", def: "1.5 BDP", to: bytesOf(&p.MaxWnd, 1)},
	}
}

func (p *MPRDMAParams) fields() []field {
	return []field{
		{key: "cut", doc: "Bytes less for a marked byte, 0.001 to 1.", def: "0.5", to: factor[float64]{to: &p.Cut, min: 0.001, max: 1}},
		{key: "maxWnd", doc: "Largest window, and the first.", def: "1.5 BDP", to: bytesOf(&p.MaxWnd, 1)},
	}
}

func (p *SwiftParams) fields() []field {
	return []field{
		{key: "target", doc: "RTT aimed at, without hops and range.", def: "base RTT + NSCC's target, uccl 50us", to: timeOf(&p.Target)},
		{key: "hops", doc: "Switches on the path, each adds target / 6.55; up to 255.", def: "0", to: factor[int]{to: &p.Hops, max: 255, whole: true, zero: true}},
		{key: "range", doc: "Flow scaling: the most that a small window adds to the target, or none.", def: "5 targets of NSCC, uccl none", to: timeOr(&p.Range, "none")},
		{key: "ai", doc: "Packets more per RTT, 0.001 to 1000000.", def: "1, uccl 8", to: factor[float64]{to: &p.AI, min: 0.001, max: 1e6}},
		{key: "beta", doc: "Decrease, 0.001 to 1.", def: "0.8", to: factor[float64]{to: &p.Beta, min: 0.001, max: 1}},
		{key: "maxMdf", doc: "Largest share taken off at once, 0.001 to 1.", def: "0.5", to: factor[float64]{to: &p.MaxMDF, min: 0.001, max: 1}},
		{key: "minWnd", doc: "Smallest window; below a packet the source is paced.", def: "0.1 MTU, uccl 4KiB", to: bytesOf(&p.MinWnd, 1)},
		{key: "maxWnd", doc: "Largest window.", def: "1.5 BDP or what fills target, uccl 1MiB", to: bytesOf(&p.MaxWnd, 1)},
		{key: "initWnd", doc: "Window at the beginning.", def: "1.5 BDP", to: bytesOf(&p.InitWnd, 1)},
	}
}

func (p *DCQCNParams) fields() []field {
	return []field{
		{key: "g", doc: "Weight of a notification, 0.000000001 to 1.", def: "0.00390625", to: factor[float64]{to: &p.G, min: 1e-9, max: 1}},
		{key: "cnpEvery", doc: "Least time between notifications.", def: "50us", to: timeOf(&p.CNPEvery)},
		{key: "timer", doc: "Of increases, and of the decay of alpha; from 100ns on.", def: "55us", to: gauge[time.Duration]{to: &p.Timer, measure: durations, min: 100, max: maxSecond}},
		{key: "bytes", doc: "… or increases come after so many bytes.", def: "10MB", to: bytesOf(&p.Bytes, 1)},
		{key: "fast", doc: "Stages of fast recovery, 1 to 1000.", def: "5", to: whole(&p.Fast, 1, 1000, false)},
		{key: "ai", doc: "Additive increase.", def: "1/20 of the link", to: rateOf(&p.AI)},
		{key: "hai", doc: "Hyper increase.", def: "1/10 of the link", to: rateOf(&p.HAI)},
		{key: "minRate", doc: "Smallest rate.", def: "1/1000 of the link", to: rateOf(&p.MinRate)},
	}
}

// The sections of load balancers, all of the same parameters.
type (
	repsKeys    struct{ *lb.Params }
	bitmapKeys  struct{ *lb.Params }
	ecmpKeys    struct{ *lb.Params }
	plbKeys     struct{ *lb.Params }
	flowletKeys struct{ *lb.Params }
	ucclKeys    struct{ *lb.Params }
	mpKeys      struct{ *lb.Params }
)

func (p *FEPParams) params() *lb.Params { return &p.Balance.Params }

func (p repsKeys) fields() []field {
	return []field{
		{key: "freeze", doc: "How long a timeout freezes it, or never.", def: "10ms", to: timeOr(&p.Freeze, "never")},
		{key: "explore", doc: "Packets with random entropy values after that, 0 to 255.", def: "16", to: whole(&p.Explore, 0, 255, true)},
		{key: "lifetime", doc: "Packets that an entropy value that came back is good for, 1 to 15.", def: "1", to: whole(&p.Lifetime, 1, 15, false)},
		{key: "firstWindow", doc: "reps-legacy: packets at the beginning that walk through all, 1 to 65536.", def: "evs", to: whole(&p.FirstWindow, 1, 1<<16, false)},
	}
}

func (p bitmapKeys) fields() []field {
	return []field{
		{key: "penaltyECN", doc: "Of a mark, 0 to 15.", def: "1", to: whole(&p.PenaltyECN, 0, 15, true)},
		{key: "penaltyNack", doc: "Of a trim, 0 to 15.", def: "4", to: whole(&p.PenaltyNack, 0, 15, true)},
		{key: "penaltyTimeout", doc: "Of a loss, 0 to 15.", def: "15", to: whole(&p.PenaltyTimeout, 0, 15, true)},
	}
}

func (p ecmpKeys) fields() []field {
	return []field{
		{key: "reroute", doc: "Another entropy value at most once in this time, 10 base RTTs or more.", def: "10 base RTT", to: timeOf(&p.Reroute)},
		{key: "on", doc: "… and what for: idle, timeout, nack, ecn; each includes those before it.", def: string(lb.OnTimeout),
			to: word[lb.Reroute]{&p.RerouteOn, []string{string(lb.OnIdle), string(lb.OnTimeout), string(lb.OnNack), string(lb.OnECN)}}},
	}
}

func (p plbKeys) fields() []field {
	return []field{
		{key: "share", doc: "Marked share of a round that makes it a congested one, 0.001 to 1.", def: "0.25", to: factor[float64]{to: &p.PLBShare, min: 0.001, max: 1}},
		{key: "rounds", doc: "Congested rounds in a row that move a connection, 1 to 255.", def: "2", to: whole(&p.PLBRounds, 1, 255, false)},
		{key: "idleRounds", doc: "… if nothing is under way, 1 to rounds.", def: "1", to: whole(&p.PLBIdleRounds, 1, 255, false)},
	}
}

func (p flowletKeys) fields() []field {
	return []field{
		{key: "gap", doc: "Silence that ends a flowlet.", def: "half a base RTT", to: timeOf(&p.FlowletGap)},
		{key: "hold", doc: "Least time between two moves.", def: "the timeout", to: timeOf(&p.FlowletHold)},
	}
}

func (p ucclKeys) fields() []field {
	return []field{
		{key: "chunk", doc: "Bytes of a message that share an entropy value, up to 1GiB.", def: "32KiB", to: gauge[int]{to: &p.Chunk, measure: sizes, min: 1, max: maxBytes}},
		{key: "smallMsg", doc: "A message of so many bytes at most takes the way of the one before it; 0B: none does.", def: "8KiB", to: gauge[int]{to: &p.SmallMsg, measure: sizes, max: maxBytes, word: noBytes, wordIs: -1}},
		{key: "smallRun", doc: "… up to so many bytes in a row.", def: "16KiB", to: gauge[int]{to: &p.SmallRun, measure: sizes, min: 1, max: maxBytes}},
	}
}

func (p mpKeys) fields() []field {
	return []field{{key: "paths", doc: "Entropy values, 1 to 256; mp-8 says it shorter.", def: "8", to: whole(&p.SubPaths, 1, 256, false)}}
}
