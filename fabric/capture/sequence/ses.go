package sequence

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/uetlab/uetlab/wire"
)

// ses is what a label says about the SES header.
type ses struct {
	flags  string // SOM, EOM …
	text   string
	class  string   // the same in packets of a run
	data   bool     // it belongs to a message, or carries what a read returns
	noun   string   // what several of them are called
	single bool     // the message is one packet
	edge   bool     // the first or last of several packets: always to be seen
	orig   wire.PSN // of a RESPONSE_W_DATA of the small form: the request's PSN
	small  bool     // orig is known
}

// newSES reads a SES header; the zero value is one that is not there.
func newSES(s *wire.SES) ses {
	switch {
	case len(s.Header) == 0:
		return ses{}
	case s.Next.IsRequest():
		return requestSES(s)
	case s.Next.IsResponse():
		return responseSES(s)
	}
	return ses{}
}

func requestSES(s *wire.SES) ses {
	h := wire.SESHead(s.Header)
	op := h.Opcode()
	out := ses{data: true, noun: "data packets", text: op.String(), single: h.SOM() && h.EOM(), edge: h.SOM() != h.EOM()}
	if op == wire.OpRead {
		out.noun = "READ requests"
	}
	out.class = op.String() + s.Next.String()
	rest := words("", h.DC(), "DC", h.IE(), "IE")
	out.flags, out.class = words("", h.SOM(), "SOM", h.EOM(), "EOM")+rest, out.class+rest
	if len(s.Ext) > 0 && op.IsAtomic() {
		out.text += " " + wire.Atomic(s.Ext).Op().String() + " " + wire.Atomic(s.Ext).Type().String()
	}
	switch s.Next {
	case wire.NextRequestSmall:
		out.text += " L " + strconv.FormatUint(uint64(wire.SESSmall(s.Header).RequestLength()), 10)
	case wire.NextRequestMedium:
		out.text += " L " + strconv.FormatUint(uint64(wire.SESMedium(s.Header).RequestLength()), 10)
	case wire.NextRequestStd:
		out.std(wire.SESStd(s.Header), op)
	}
	if len(s.Ext) > 0 && op.IsRendezvous() && h.SOM() { // all packets have it
		ext := wire.Rendezvous(s.Ext)
		out.text += fmt.Sprintf(" eager %d, rest at key 0x%x offset %d", ext.EagerLength(), ext.MatchBits(), ext.Offset())
	}
	return out
}

// std adds what a header of the standard form says.
func (s *ses) std(v wire.SESStd, op wire.Opcode) {
	mid := fmt.Sprintf(" mid %d", v.MessageID())
	if !s.single {
		s.class += mid
	}
	s.text += mid
	if v.Head().SOM() {
		s.text += fmt.Sprintf(" L %d", v.RequestLength())
		if oneSided(op) {
			s.text += fmt.Sprintf(" key 0x%x offset %d", v.MatchBits(), v.BufferOffset())
		}
		if v.Head().HD() {
			s.text += fmt.Sprintf(" hd 0x%x", v.HeaderData())
		}
	} else {
		s.text += fmt.Sprintf(" off %d len %d", v.MessageOffset(), v.PayloadLength())
	}
	if op == wire.OpDeferrableRTR {
		s.text += fmt.Sprintf(" from %d", v.BufferOffset())
	}
	if op.IsDeferrable() && !v.Head().SOM() && v.Head().EOM() && v.PayloadLength() == 0 {
		s.text += " early end"
	}
	if ini, tgt := v.InitiatorToken(), v.TargetToken(); (ini != 0 || tgt != 0) && v.Head().SOM() { // all packets have them
		s.text += fmt.Sprintf(" tokens ini 0x%x tgt 0x%x", ini, tgt)
	}
}

// oneSided says that an operation names memory of the peer.
func oneSided(op wire.Opcode) bool { return op == wire.OpWrite || op == wire.OpRead || op.IsAtomic() }

func responseSES(s *wire.SES) ses {
	h := wire.RespHead(s.Header)
	out := ses{}
	if h.Opcode() != wire.RespDefault || h.ReturnCode() != wire.RCOK {
		out.text = h.Opcode().String() + " RC_" + h.ReturnCode().String()
		if h.List() != wire.ListExpected {
			out.text += " " + h.List().String()
		}
	}
	out.class = h.Opcode().String() + " " + h.ReturnCode().String() + h.List().String() + s.Next.String()
	switch s.Next {
	case wire.NextResponse:
		v := wire.SESResponse(s.Header)
		if out.text != "" {
			out.text += fmt.Sprintf(" mid %d modified %d", v.MessageID(), v.ModifiedLength())
		}
	case wire.NextResponseData:
		v := wire.SESResponseData(s.Header)
		out.data, out.noun = true, "packets of return data"
		mid := fmt.Sprintf(" mid %d", v.ReadRequestMessageID())
		out.class += mid
		out.text += fmt.Sprintf("%s off %d len %d of %d", mid, v.MessageOffset(), v.PayloadLength(), v.ModifiedLength())
	case wire.NextResponseDataSmall:
		v := wire.SESResponseDataSmall(s.Header)
		out.data, out.noun, out.small, out.orig = true, "packets of return data", true, v.OriginalRequestPSN()
		out.text += fmt.Sprintf(" len %d", v.PayloadLength())
	}
	return out
}

// faultOf says what is wrong with a packet.
func faultOf(err error) string {
	var fe *wire.FieldError
	if errors.As(err, &fe) {
		return clean(fe.Header+" "+fe.Field) + " " + fe.Why
	}
	return clean(err.Error())
}
