package fep

import (
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/wire"
)

// response is the semantic answer to one request packet (uet-pds-ses.md 13.4).
type response struct {
	op   wire.RespOpcode
	rc   wire.ReturnCode
	list wire.List
	gtd  bool // must not be lost (17.3)
	mid  uint16
	gen  uint8
	job  uint32
	mod  uint32 // modified_length
}

// fill hands the answer to packet delivery. A default response is made there.
func (r *response) fill(to *pds.Response) {
	to.Job, to.Gtd = r.job, r.gtd
	if r.op != wire.RespDefault && to.Next == wire.NextNone {
		to.Set(&wire.ResponseFields{RespFields: wire.RespFields{List: r.list, Opcode: r.op, ReturnCode: r.rc, JobID: r.job},
			MessageID: r.mid, RIGeneration: r.gen, ModifiedLength: r.mod})
	}
}

// refuse turns the answer into an error. Only the first of a message is guaranteed: it is the verdict.
func (r *response) refuse(f *FEP, rc wire.ReturnCode, gtd bool) {
	f.C[RespErrTx]++
	f.RCs.Tx[rc&0x3F]++
	r.op, r.rc, r.gtd, r.mod = wire.RespResponse, rc, gtd, 0
}

// data makes the answer one that carries data, in the form that the request wants.
func (r *response) data(to *pds.Response, q *packet, data []byte, total, off uint32) {
	f := wire.RespFields{Opcode: wire.RespWithData, ReturnCode: wire.RCOK, JobID: r.job}
	if q.std == nil {
		to.SetDataSmall(&wire.ResponseDataSmallFields{RespFields: f, PayloadLength: uint16(len(data)), OriginalRequestPSN: q.psn}, data)
		return
	}
	to.SetData(&wire.ResponseDataFields{RespFields: f, ReadRequestMessageID: r.mid, PayloadLength: uint16(len(data)), ModifiedLength: total,
		MessageOffset: off}, data)
}
