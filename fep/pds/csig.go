package pds

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// Forms of Config.CSIG.
const (
	CSIGOff     = "off"
	CSIGCompact = "compact"
	CSIGWide    = "wide"
)

// csig is what the switches on the way said in the latest tagged packet of a PDC.
type csig struct {
	signal  uint32 // of the available share of the narrowest link, in the steps of the tag's form
	locator uint16 // the hop that it is of
	seen    bool
}

// tag puts a CSIG tag into a data packet that is about to leave (uet-link-switch.md 10). It asks for the smallest share of
// bandwidth that is left on the way, and begins with all of it.
func (m *Manager) tag(fr *link.Frame) *link.Frame {
	if m.cfg.CSIG != CSIGCompact && m.cfg.CSIG != CSIGWide {
		return fr
	}
	t := wire.CSIGFields{Wide: m.cfg.CSIG == CSIGWide, TPID: m.cfg.CSIGCompactTPID, Type: wire.CSIGABWShare, Signal: ^uint32(0)}
	if t.Wide {
		t.TPID = m.cfg.CSIGWideTPID
	}
	fr.B, _ = wire.InsertCSIG(fr.B, &t)
	return fr
}

// Untag reads the tag of a frame that has arrived, for the packet that is handed over next, and takes it off.
func (m *Manager) Untag(fr *link.Frame) {
	m.sig = csig{}
	if c := wire.CSIGTag(fr.B, m.cfg.CSIGCompactTPID, m.cfg.CSIGWideTPID); c != nil {
		m.C[CSIGRx]++
		m.sig = csig{c.Signal(), c.Locator(), true}
		fr.B = wire.RemoveCSIG(fr.B, c)
	}
}
