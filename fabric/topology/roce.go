package topology

// Transports of an end point, as a file says them.
const (
	TransportUET  = "uet"
	TransportRoCE = "roce" // what RoCEv2 does: in order on one path, go-back-N; DCQCN and a lossless fabric unless the file says otherwise
)

// transport says what end points do as far as the transport alone decides it; what is said of cc and lb comes after it. What RoCEv2 does
// finds losses by NACKs and timeouts only, and so does without Probes.
func (p *FEPParams) transport(c *FEPConfig) {
	switch p.Transport {
	case TransportRoCE:
		c.Ordered, c.CC, c.LB = true, "dcqcn", "fixed"
	case TransportUET:
		if c.Ordered {
			c.Ordered, c.CC, c.LB = false, DefaultCC, defaultLB
		}
	}
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
