package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/wire"
)

// space is one of the three name spaces of resource indices that a process has (uet-pds-ses.md 1.2).
type space uint8

const (
	spaceRMA space = iota
	spaceSend
	spaceTagged
	numSpaces
)

// spaceOf says where an operation's resource index belongs.
func spaceOf(op wire.Opcode) space {
	switch op {
	case wire.OpTaggedSend, wire.OpRendezvousTSend, wire.OpDeferrableTSend, wire.OpTSendAtomic, wire.OpTSendFetchAtomic:
		return spaceTagged
	case wire.OpWrite, wire.OpRead, wire.OpAtomic, wire.OpFetchingAtomic:
		return spaceRMA
	}
	return spaceSend
}

// Address is where an endpoint is reached: what an FI_ADDR_UET holds (uet-pds-ses.md 1.3).
type Address struct {
	FA                   netip.Addr
	PID                  uint16 // PIDonFEP, 12 bits
	RMARI, SendRI, TagRI uint16 // resource indices, 12 bits; 0: 15
	Initiator            uint32 // what its messages carry for matching
	Absolute             bool   // a service of the FEP; else a process of the job
	Profiles             Profiles
	SmallHeader          bool // takes the optimized headers
	PayloadMTU           int  // 0: like ours
}

// peer is an entry of an address vector. It does not change; messages under way keep it.
type peer struct {
	addr      netip.Addr
	pid       uint16
	ri        [numSpaces]uint16
	initiator uint32
	absolute  bool
	small     bool
	profile   Profiles // the one that the pair uses
	control   *peer    // its control resource index (AI Base), see controlOf
	streams   [numSpaces]*stream
}

// defaultRI is the resource index of those who do not choose one.
const defaultRI = 15

func ri(v uint16) uint16 {
	if v == 0 {
		return defaultRI
	}
	return v & 0xFFF
}

// Addr is where the endpoint is reached.
func (ep *Endpoint) Addr() Address {
	return Address{FA: ep.f.fa, PID: ep.pid, RMARI: ep.ri[spaceRMA], SendRI: ep.ri[spaceSend], TagRI: ep.ri[spaceTagged],
		Initiator: ep.initiator, Absolute: ep.absolute, Profiles: ep.profiles, SmallHeader: ep.f.cfg.SmallHeader,
		PayloadMTU: ep.f.cfg.PayloadMTU}
}

// Insert adds a process to the address vector and returns its index: 0, 1, …, the ranks of a job if they are inserted in order. It
// refuses, with ErrFamily, ErrProfile or ErrMTU, whom no packet should be sent to.
func (ep *Endpoint) Insert(a Address) (int, error) {
	p := &peer{addr: a.FA.Unmap(), pid: a.PID & 0xFFF, ri: [numSpaces]uint16{ri(a.RMARI), ri(a.SendRI), ri(a.TagRI)},
		initiator: a.Initiator, absolute: a.Absolute, small: a.SmallHeader && ep.f.cfg.SmallHeader}
	if a.Profiles == 0 {
		a.Profiles = ep.profiles
	}
	p.profile = ep.profiles.With(a.Profiles)
	switch {
	case p.addr.Is4() != ep.f.fa.Is4() || !p.addr.IsValid():
		return 0, ErrFamily
	case p.profile == 0:
		return 0, ErrProfile
	case a.PayloadMTU != 0 && a.PayloadMTU != ep.f.cfg.PayloadMTU:
		return 0, ErrMTU
	}
	ep.av = append(ep.av, p)
	i := len(ep.av) - 1
	if _, ok := ep.ranks[p.initiator]; !ok {
		ep.ranks[p.initiator] = i
	}
	return i, nil
}

// Remove takes a process out of the address vector. Its index is not given to anybody else; operations under way go on.
func (ep *Endpoint) Remove(i int) {
	if i < 0 || i >= len(ep.av) || ep.av[i] == nil {
		return
	}
	if p := ep.av[i]; ep.ranks[p.initiator] == i {
		delete(ep.ranks, p.initiator)
	}
	ep.av[i] = nil
}

// rank finds a peer by its initiator ID, -1 if it is not known.
func (ep *Endpoint) rank(initiator uint32) int {
	if i, ok := ep.ranks[initiator]; ok {
		return i
	}
	return -1
}

// procKey names a process: of a job, or with noJob a service of the FEP.
type procKey struct {
	job uint32
	pid uint16
}

const noJob = 1 << 24

// directory finds endpoints by what packets carry (uet-pds-ses.md 1.2).
type directory struct {
	procs map[procKey][]*Endpoint // endpoints of one process differ in their resource indices
	jobs  map[uint32]int          // endpoints of a job
	list  []*Endpoint             // in the order of opening
}

func (d *directory) key(ep *Endpoint) procKey {
	if ep.absolute {
		return procKey{noJob, ep.pid}
	}
	return procKey{ep.job, ep.pid}
}

// add refuses an endpoint whose place is taken.
func (d *directory) add(ep *Endpoint) bool {
	k := d.key(ep)
	for _, old := range d.procs[k] {
		for s := range ep.ri {
			if !old.closed && old.ri[s] == ep.ri[s] {
				return false
			}
		}
	}
	d.procs[k] = append(d.procs[k], ep)
	d.jobs[k.job]++
	d.list = append(d.list, ep)
	return true
}

func (d *directory) remove(ep *Endpoint) {
	k := d.key(ep)
	d.procs[k] = without(d.procs[k], ep)
	if len(d.procs[k]) == 0 {
		delete(d.procs, k)
	}
	if d.jobs[k.job]--; d.jobs[k.job] == 0 {
		delete(d.jobs, k.job)
	}
	d.list = without(d.list, ep)
}

func without[T comparable](list []T, x T) []T {
	for i := range list {
		if list[i] == x {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// find resolves {JobID, PIDonFEP, RI}, or without rel {PIDonFEP, RI}, for an operation of a space. anyRI is for packets that carry
// something else in place of the resource index.
func (d *directory) find(h wire.SESHead, s space, anyRI bool) (*Endpoint, wire.ReturnCode) {
	k := procKey{noJob, h.PIDonFEP()}
	if h.Rel() {
		k.job = h.JobID()
	}
	if procs := d.procs[k]; len(procs) > 0 {
		var closed *Endpoint
		for _, ep := range procs {
			switch {
			case ep.ri[s] != h.ResourceIndex() && !anyRI:
			case ep.closed:
				closed = ep
			default:
				return ep, wire.RCOK
			}
		}
		if closed != nil {
			return nil, wire.RCDisabled
		}
		return nil, wire.RCBadIndex
	}
	switch {
	case len(d.list) == 0:
		return nil, wire.RCUndeliverable
	case d.jobs[k.job] == 0 && h.Rel():
		return nil, wire.RCBadJobID
	}
	return nil, wire.RCBadPID
}
