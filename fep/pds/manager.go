package pds

import (
	"math/rand/v2"
	"net/netip"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// Host is what a manager needs of the node that it is part of.
type Host struct {
	Pool  *link.Pool
	Port  *link.Port
	Timer func(t vt.Time) // asks for a call of Manager.Timer at t

	// Rand gives the generator of the load balancer and of credit, afresh at every Reset; it may be nil where Config asks for neither.
	Rand func() *rand.Rand
}

// Manager is the packet delivery sublayer of one end point: its PDCs, and the modes that have none. It is not for concurrent
// use: its methods are called from the node's events.
type Manager struct {
	C *Counters

	cfg    Config
	up     Upper
	pool   *link.Pool
	port   *link.Port
	setAt  func(t vt.Time)
	wheel  wheel.Wheel
	set    []vt.Time // when calls of Timer are due, the soonest last
	full   int       // nominal bytes of a full packet
	thresh uint32    // see PDC.threshold
	maxWnd float64   // bytes: largest window of congestion control

	rng   *rand.Rand // Start_PSNs, PDCIDs, pkt_ids
	evRng *rand.Rand // entropy values
	epoch uint64     // of the latest Reset

	newRand  func() *rand.Rand
	lbs      *lb.Pool // nil: LB is spray or fixed
	onePath  bool     // its balancers use one EV for long, so that packets stay in order
	cccs     map[cccKey]*ccc
	cccID    uint8 // of the latest
	cccReady int   // contexts that have something to send, and may
	baseRTTs map[netip.Addr]vt.Time
	credits  *credits // nil: none are given

	pdcs    pdcTable
	bySYN   map[synKey]*PDC
	groups  map[groupKey]*group
	waiting []*Msg // no PDC was free
	closing int    // initiators' PDCs that are being closed
	gen     uint64 // of the latest PDC
	rings   ringPool
	maps    mapPool
	ended   endedPDCs

	nacksTx, nacksRx [256]uint64 // by code

	windows WindowHook          // nil: nobody wants to know
	watched map[netip.Addr]bool // peers: packets are counted by entropy value; nil: of none

	ctl      ctlQueue
	late     late
	rtxq     pdcQueue // PDCs with something to send again
	sendq    pdcQueue // PDCs with new data
	refusedq pdcQueue // PDCs with something to send again that was refused
	rudi     rudi

	arr  arrival
	req  Request
	resp Response
	sig  csig             // of the frame being handled
	head wire.FrameFields // outer headers of the frame being built
}

// New makes a manager for a configuration that Resolve has accepted. It counts into c. Reset comes before anything else.
func New(cfg Config, h Host, up Upper, c *Counters) *Manager {
	m := &Manager{C: c, up: up, pool: h.Pool, port: h.Port, setAt: h.Timer, newRand: h.Rand}
	m.Configure(cfg)
	return m
}

// Configure replaces the configuration by one that Resolve has accepted. Reset comes before anything else.
func (m *Manager) Configure(cfg Config) {
	m.cfg, m.onePath, m.maxWnd = cfg, false, 0
	m.head = wire.FrameFields{DstMAC: cfg.NextHop, SrcMAC: cfg.MAC, Src: cfg.FA}
	m.full = cfg.nominal(wire.NextRequestStd.HeaderLen(), cfg.PayloadMTU)
	m.thresh = uint32(max(few, cfg.Window/int64(m.full)))
	if cc := cfg.CC; cc != nil {
		m.maxWnd = cc.MaxWnd()
		if cc.Algorithm.Credits() {
			m.thresh = uint32(max(few, int64(2.25*cc.Net.BDP())/int64(m.full)))
		}
	}
}

// Config is the configuration in force.
func (m *Manager) Config() *Config { return &m.cfg }

// SetMPR changes the window that all PDCs advertise from now on, in 128 PSNs. What was announced stays acceptable.
func (m *Manager) SetMPR(mpr uint8) { m.cfg.MPR = mpr }

// Reset forgets all PDCs and messages without a word to SES or to peers, and takes random choices from the generators.
func (m *Manager) Reset(now vt.Time, rng, evRng *rand.Rand) {
	m.epoch++
	m.rng, m.evRng = rng, evRng
	m.C[GtdInUse], m.C[PDCs] = 0, 0
	m.wheel.Reset(now)
	m.set = m.set[:0]
	m.pdcs.reset(m.cfg.MaxPDCs, rng)
	m.bySYN, m.groups = map[synKey]*PDC{}, map[groupKey]*group{}
	m.waiting, m.closing = nil, 0
	m.ctl, m.rtxq, m.sendq, m.refusedq = ctlQueue{}, pdcQueue{}, pdcQueue{}, pdcQueue{}
	m.late.reset()
	m.rudi.reset(rng)
	m.resetCongestion()
}

// resetCongestion forgets contexts and balancers. Resolve has accepted their parameters.
func (m *Manager) resetCongestion() {
	m.lbs, m.credits, m.cccReady = nil, nil, 0
	m.cccs, m.baseRTTs = map[cccKey]*ccc{}, map[netip.Addr]vt.Time{}
	credit := m.cfg.CC != nil && m.cfg.CC.Algorithm.Credits()
	if !m.cfg.balanced() && !credit {
		return
	}
	rng := m.newRand()
	if m.cfg.balanced() {
		m.lbs, _ = lb.NewPool(m.cfg.Balance, rng)
		switch m.cfg.Balance.Algorithm {
		case lb.ECMP, lb.Fixed, lb.PLB, lb.Flowlet:
			m.onePath = true
		}
	}
	if credit {
		m.cccID = uint8(rng.Uint32()) // peers may still know those from before
		pacer, _ := cms.NewPacer[creditDst](m.cfg.CC, rng)
		m.credits = newCredits(m, pacer)
	}
}

// Arm sets a timer of SES in the end point's one timer structure; its owner is told when it fires.
func (m *Manager) Arm(t *wheel.Timer, at vt.Time) { m.arm(t, at) }

// Disarm takes a timer back.
func (m *Manager) Disarm(t *wheel.Timer) { m.wheel.Cancel(t) }

func (m *Manager) arm(t *wheel.Timer, at vt.Time) {
	m.wheel.Arm(t, at)
	m.wake(at)
}

// wake asks for a call at t unless one comes before that anyway.
func (m *Manager) wake(at vt.Time) {
	if n := len(m.set); at != vt.Never && (n == 0 || m.set[n-1] > at) {
		m.set = append(m.set, at)
		m.setAt(at)
	}
}

// Timer is the call that was asked for.
func (m *Manager) Timer(now vt.Time) {
	for n := len(m.set); n > 0 && m.set[n-1] <= now; n = len(m.set) {
		m.set = m.set[:n-1]
	}
	m.wheel.Advance(now)
	m.wake(m.wheel.Next())
	m.Kick(now)
}

// arrival is a packet being handled; it points into a frame that lives until the handling ends.
type arrival struct {
	in   *wire.Inbound
	uet  []byte // PDS header .. payload
	ref  []byte // the payload, where it has come by reference
	src  netip.Addr
	size int // nominal
}

func (a *arrival) ce() bool { return a.in.ECN == wire.ECNCE }

// Packet handles a UET packet to us; in points into a frame that the caller releases. ref is its payload if that has come by
// reference: nothing can have damaged it.
func (m *Manager) Packet(now vt.Time, in *wire.Inbound, ref []byte, src netip.Addr) {
	switch {
	case m.TrimmedDSCP(in.DSCP):
		m.onTrimmed(now, in, src)
		return
	case in.Cut:
		m.C[Malformed]++
		return
	}
	size := wire.UDPLen + len(in.UET) + 40
	uet := in.UET
	if !m.cfg.NoCRC {
		if ref == nil && !wire.CheckUETCRC(in.IP) {
			m.C[CRCBad]++
			return
		}
		uet = uet[:max(0, len(uet)-wire.CRCLen)]
	}
	pro, err := wire.ParsePrologue(uet)
	if err != nil {
		m.C[Malformed]++
		return
	}
	m.arr = arrival{in: in, uet: uet, ref: ref, src: src, size: size}
	switch t := pro.Type(); {
	case t.IsRequest():
		m.onRequest(now, &m.arr)
	case t.IsAck():
		m.onAckPacket(now, uet, src)
	case t.IsNack():
		m.onNackPacket(now, uet, src)
	case t == wire.TypeCtrl:
		m.onCtrl(now, &m.arr)
	case t == wire.TypeRUDIReq || t == wire.TypeRUDIResp:
		m.onRUDI(now, &m.arr)
	case t == wire.TypeUUDReq:
		m.onUUD(now, &m.arr)
	default:
		m.C[Unsupported]++
	}
}

// NextFrame is the port's wish for a frame: control packets first, then retransmissions, then new data.
func (m *Manager) NextFrame(now vt.Time) *link.Frame {
	if fr := m.nextCtl(now); fr != nil {
		return fr
	}
	paused := m.port.Paused(now)
	if paused != 0 {
		m.starved(now, paused)
	}
	if paused>>m.cfg.ClassUnmanaged&1 == 0 && m.rudi.busy() && (m.rudi.turn || paused>>m.cfg.Class&1 != 0) {
		if fr := m.nextRUDI(now); fr != nil {
			m.rudi.turn = false
			return fr
		}
	}
	if paused>>m.cfg.Class&1 == 0 {
		if fr := m.nextData(now); fr != nil {
			m.rudi.turn = true
			return fr
		}
	}
	if paused>>m.cfg.ClassUnmanaged&1 == 0 && m.rudi.busy() {
		return m.nextRUDI(now)
	}
	return nil
}

func (m *Manager) nextData(now vt.Time) *link.Frame {
	if fr := m.nextRefused(now, false); fr != nil {
		return fr
	}
	for p := m.rtxq.pop(); p != nil; p = m.rtxq.pop() {
		p.s.inRtx = false
		if fr := p.nextRetx(now, false, false); fr != nil {
			p.requeue()
			return fr
		}
	}
	for p := m.sendq.pop(); p != nil; p = m.sendq.pop() {
		p.s.inSend = false
		if fr := p.nextNew(now); fr != nil {
			p.queueSend()
			return fr
		}
	}
	return m.nextRefused(now, true)
}

// Kick lets the port take what has become ready.
func (m *Manager) Kick(now vt.Time) {
	if m.ctl.n > 0 || m.late.waits() || m.rtxq.n > 0 || m.refusedq.n > 0 || m.sendq.n > 0 || m.rudi.busy() {
		m.port.Kick(now)
	}
}

// Local is the Group of a frame that is for this end point itself.
const Local = 1

// begin starts a frame to peer with the outer headers laid down.
func (m *Manager) begin(peer netip.Addr, ev uint16, dscp, ecn uint8) *link.Frame {
	fr := m.pool.Get()
	m.head.Dst, m.head.EV, m.head.DSCP, m.head.ECN = peer, ev, dscp, ecn
	m.head.DstMAC = m.cfg.NextHop
	if peer == m.cfg.FA {
		fr.Group, m.head.DstMAC = Local, m.cfg.MAC
	}
	fr.B = wire.AppendUDPFrame(fr.B, &m.head)
	return fr
}

// finish sets lengths and CRC.
func (m *Manager) finish(fr *link.Frame) *link.Frame {
	if m.cfg.NoCRC {
		wire.FinishUDP(fr.B)
	} else {
		fr.B = wire.AppendUETCRC(fr.B)
	}
	return fr
}

// randomEV draws an entropy value; 0 is left out, since a UDP source port 0 means "none".
func (m *Manager) randomEV() uint16 {
	for {
		if ev := uint16(m.evRng.Uint32()); ev != 0 {
			return ev
		}
	}
}
