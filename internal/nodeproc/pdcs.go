package nodeproc

import (
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/wire"
)

// pdcsAtOnce is how many PDCs go into one message: what any socket takes.
const pdcsAtOnce = 100

// pdcs describes an end point's PDCs from the number from on.
func (p *proc) pdcs(from int) ctl.PDCs {
	out := ctl.PDCs{List: []ctl.PDC{}}
	f := p.core.FEP
	if f == nil {
		return out
	}
	all := f.EndedPDCs(f.PDCs(nil))
	from = min(max(from, 0), len(all))
	to := min(from+pdcsAtOnce, len(all))
	for i := range all[from:to] {
		out.List = append(out.List, describePDC(&all[from+i]))
	}
	if to < len(all) {
		out.Next = to
	}
	if from == 0 {
		out.NacksTx, out.NacksRx = map[string]uint64{}, map[string]uint64{}
		f.PDS().Nacks(func(code wire.NackCode, tx, rx uint64) {
			if tx > 0 {
				out.NacksTx[code.String()] = tx
			}
			if rx > 0 {
				out.NacksRx[code.String()] = rx
			}
		})
		out.RCsTx, out.RCsRx = returnCodes(&f.RCs.Tx), returnCodes(&f.RCs.Rx)
	}
	return out
}

// returnCodes names the codes that occurred.
func returnCodes(counts *[64]uint64) map[string]uint64 {
	named := map[string]uint64{}
	for c, n := range counts {
		if n > 0 {
			named[wire.ReturnCode(c).String()] = n
		}
	}
	return named
}

func describePDC(i *fep.PDCInfo) ctl.PDC {
	d := ctl.PDC{ID: i.ID, PeerID: i.PeerID, PeerAddr: i.Peer.String(), Role: ctl.RoleTarget, Mode: i.Mode.String(), TC: i.TC, Job: i.Job,
		State: i.State.String(), Ended: i.End != pds.NotEnded && i.State == pds.Closed, AgeNs: int64(i.Age), IdleNs: int64(i.Idle), EndedNs: int64(i.Ended),
		StartPSN: uint32(i.Start), InFlight: i.InFlight, Window: i.Window, RTTNs: int64(i.RTT), RTTMinNs: int64(i.RTTMin),
		Retx: i.Retx, Locks: i.Locks, Messages: i.Messages,
		Tx: ctl.PDCSend{Next: uint32(i.Tx.Next), CACK: uint32(i.Tx.CACK), Clear: uint32(i.Tx.Clear), MPR: i.Tx.MPRange, Unacked: i.Tx.Unacked,
			Backlog: i.Tx.Backlog, Recovering: i.Tx.Recovering},
		Rx: ctl.PDCRecv{Next: uint32(i.Rx.Max + 1), CACK: uint32(i.Rx.CACK), Clear: uint32(i.Rx.Clear), MPR: i.Rx.MPRange,
			OutOfOrder: i.Rx.OutOfOrder, Stored: i.Rx.Stored}}
	if i.Initiator {
		d.Role = ctl.RoleInitiator
	}
	if d.Ended {
		d.State = i.End.String()
	}
	switch {
	case i.Code != 0:
		d.Error = "the peer sent NACK " + i.Code.String()
	case i.End == pds.EndFailed:
		d.Error = "the peer did not acknowledge in time"
	case i.End == pds.EndExpired:
		d.Error = "the peer was silent at the end"
	}
	for c, n := range i.RetxBy {
		if n > 0 {
			if d.RetxBy == nil {
				d.RetxBy = map[string]uint32{}
			}
			d.RetxBy[pds.Cause(c).String()] = n
		}
	}
	if i.NackTx != 0 {
		d.NackTx = i.NackTx.String()
	}
	if i.NackRx != 0 {
		d.NackRx = i.NackRx.String()
	}
	if i.CSIG {
		d.CSIG = &ctl.CSIG{Signal: i.CSIGSignal, Locator: i.CSIGLocator}
	}
	return d
}
