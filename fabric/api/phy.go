package api

import (
	"context"
	"net/url"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/phy"
)

// PHY is the physical layer of one direction of a link. Estimates are 0 where there is nothing to tell them from.
type PHY struct {
	Link string `json:"link"`
	From End    `json:"from"`
	To   End    `json:"to"`
	PCS  string `json:"pcsStatus"` // up or down
	link.PHY
	UCR       float64 `json:"ucr"`       // uncorrectable codewords of all
	MTBPENs   float64 `json:"mtbpeNs"`   // mean time between phy errors, virtual
	RawBER    float64 `json:"rawBer"`    // bits corrected of all on the line
	PostBER   float64 `json:"postBer"`   // bits wrong behind FEC, of those of frames sent
	Frames    uint64  `json:"frames"`    // sent, ordered sets left aside
	FCSErrors uint64  `json:"fcsErrors"` // at the far end
	Preambles uint64  `json:"preambles"` // damaged, at the far end
	FrameLoss float64 `json:"frameLossRatio"`
}

// PHYOf works out the estimates of a direction: what its sending port has counted, bytes that it has sent among it, and frames that were
// bad where they arrived.
func PHYOf(s link.PHY, frames, bytes, fcs, preambles uint64) PHY {
	share := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	const fcsLen = 4
	p := PHY{PHY: s, PCS: LinkUp, Frames: frames, FCSErrors: fcs, Preambles: preambles}
	if !s.Up {
		p.PCS = LinkDown
	}
	words := float64(s.Codewords)
	p.UCR = share(float64(s.Uncorrectable), words)
	p.MTBPENs = share(s.CodewordNs, p.UCR)
	p.RawBER = share(s.CorrectedBits, words*phy.LineBits)
	p.PostBER = share(float64(s.WrongBits), 8*float64(bytes+fcsLen*frames))
	p.FrameLoss = share(float64(fcs+preambles), float64(frames))
	return p
}

// PHY gives both directions of the links named, by name or pattern, or of all. Those whose ends do not answer are left out.
func (c *Client) PHY(ctx context.Context, links ...string) ([]PHY, error) {
	return get[[]PHY](ctx, c, "/v1/phy", ofLinks(links))
}

func ofLinks(names []string) url.Values {
	if len(names) == 0 {
		return nil
	}
	return url.Values{"link": names}
}
