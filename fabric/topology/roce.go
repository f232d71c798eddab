package topology

// Transports of an end point, as a file says them.
const (
	TransportUET  = "uet"
	TransportRoCE = "roce" // what RoCEv2 does: in order on one path, go-back-N; DCQCN and a lossless fabric unless the file says otherwise
)

// transport fills in what an end point that is to act as RoCEv2 does has not said.
func (p FEPParams) transport() FEPParams {
	if p.Transport != TransportRoCE {
		return p
	}
	return laid(p, FEPParams{CC: "dcqcn", LB: "fixed"})
}

// fabric gives what switches between such end points do unless the file says otherwise: their data is in a lossless queue.
func (p *FEPParams) fabric(c DSCP) (sw SwitchParams) {
	if p.Transport != TransportRoCE {
		return sw
	}
	on, q := true, queueRoCE
	sw.PFC.Enabled = &on
	sw.Classes[c.Data%numDSCP], sw.Classes[c.Retx%numDSCP] = &q, &q
	return sw
}
