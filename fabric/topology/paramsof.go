package topology

import (
	"fmt"
	"net/netip"

	"github.com/uetlab/uetlab/switchd"
)

// paramsOf says settings as parameters that make them: the other direction of settler.apply.
func (p *Plan) paramsOf(s *switchd.Settings) *SwitchParams {
	data := &s.Queues[queueData]
	params := &SwitchParams{
		Shared: SharedParams{Size: exactly(s.Buffer.Shared)},
		ECMP: ECMPParams{Hash: s.ECMP.Hash, Fields: s.ECMP.Fields, Group: s.ECMP.Group, Buckets: s.ECMP.Buckets, IdleTimer: &s.ECMP.IdleTimer,
			Weights: s.ECMP.Weights, Balance: s.ECMP.Balance, FlowletGap: &s.ECMP.FlowletGap, Bands: &s.ECMP.Bands},
		PFC: PFCParams{Xoff: exactly(s.PFC.Xoff), Xon: exactly(s.PFC.Xon), Headroom: exactly(s.PFC.Headroom), Quanta: int(s.PFC.Quanta),
			Watchdog: &s.PFC.Watchdog, Restore: &s.PFC.Restore, Action: s.PFC.Action},
		CSIG:   CSIGParams{Enabled: &s.CSIG.Enabled, Compact: int(s.CSIG.Compact), Wide: int(s.CSIG.Wide), Interval: &s.CSIG.Interval, Strip: []string{}},
		Mirror: MirrorParams{To: portOr(s.Mirror.To, wordOff), Sample: s.Mirror.Sample, From: portOr(s.Mirror.From, wordAny)},
	}
	if s.Buffer.Shared > 0 {
		params.Shared.Reserved = exactly(s.Buffer.Reserved)
	}
	if data.Limit > 0 && !data.Lossless {
		params.Buffer = exactly(data.Limit)
	}
	params.trimOf(&s.Trim)
	params.ecnOf(data)
	params.ECN.LastHop = s.LastHop
	lossless := false
	for q := range s.Queues {
		lossless = lossless || s.Queues[q].Lossless
	}
	for q := range s.Queues {
		params.queueOf(q, s, lossless)
	}
	params.PFC.Enabled = &lossless
	for i, w := range s.ECMP.PortWeight {
		if w > 0 {
			n := int(w)
			params.Weight[i] = &n
		}
		if s.CSIG.Strip[i] {
			params.CSIG.Strip = append(params.CSIG.Strip, fmt.Sprintf("eth%d", i+1))
		}
	}
	for dscp, usual := range p.DSCP.classes() {
		if q := int(s.Classes[dscp]); q != int(usual) {
			params.Classes[dscp] = &q
		}
	}
	return params
}

// exactly is so many bytes.
func exactly(bytes int64) Size { return Size{Bytes: bytes, None: bytes == 0} }

func portOr(index int, word string) string {
	if index < 0 {
		return word
	}
	return fmt.Sprintf("eth%d", index+1)
}

func (p *SwitchParams) trimOf(s *switchd.Trim) {
	p.Trim = TrimParams{Enabled: &s.Enabled, Size: exactly(int64(s.Size)), Victim: "arriving", FixIP: &s.FixIP, RetxLimit: exactly(s.RetxLimit), Trimmable: []int{}, Disable: []netip.Prefix{}}
	if s.Coin {
		p.Trim.Victim = "coin"
	}
	for _, dscp := range s.Trimmable {
		p.Trim.Trimmable = append(p.Trim.Trimmable, int(dscp))
	}
	for _, text := range s.Disabled {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			p.Trim.Disable = append(p.Trim.Disable, prefix)
		}
	}
}

// ecnOf says of all data queues what holds of one.
func (p *SwitchParams) ecnOf(s *switchd.Queue) {
	on, pmax := s.Kmax > 0, millionths(s.Pmax)
	p.ECN = ECNParams{Enabled: &on, Pmax: &pmax, WRED: &s.WRED}
	if on {
		p.ECN.Kmin, p.ECN.Kmax = exactly(s.Kmin), exactly(s.Kmax)
	}
}

// queueOf says what is true of one queue and not said of all; lossless says whether any queue is.
func (p *SwitchParams) queueOf(q int, all *switchd.Settings, lossless bool) {
	s, data, to := &all.Queues[q], &all.Queues[queueData], &p.Queues[q]
	if s.Strict || q == queueControl {
		to.Strict = &s.Strict
	}
	if s.Trim || q == queueData || q == queueUnreliable {
		to.Trim = &s.Trim
	}
	if s.Lossless || lossless && q == queueRoCE {
		to.Lossless = &s.Lossless
	}
	if !s.Strict {
		to.Weight = max(s.Weight, 1)
	}
	if all.Buffer.Shared > 0 {
		to.Alpha = &s.Alpha
	}
	if !marks(q) || s.Lossless || data.Lossless || s.Limit != data.Limit || s.Limit == 0 {
		to.Limit = exactly(s.Limit)
	}
	group := data
	if !marks(q) {
		group = &switchd.Queue{Pmax: 1}
	}
	if s.Pmax != group.Pmax {
		pmax := millionths(s.Pmax)
		to.Pmax = &pmax
	}
	if s.WRED != group.WRED {
		to.WRED = &s.WRED
	}
	if !marks(q) {
		return
	}
	on, dataOn := s.Kmax > 0, data.Kmax > 0
	if on != dataOn {
		to.ECN = &on
	}
	if on && (!dataOn || s.Kmin != data.Kmin) {
		to.Kmin = exactly(s.Kmin)
	}
	if on && (!dataOn || s.Kmax != data.Kmax) {
		to.Kmax = exactly(s.Kmax)
	}
}
