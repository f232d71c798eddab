package nodecore

import (
	"fmt"
	"strings"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
)

// about describes the node to its neighbours in LLDP's System Description: what kind it is, and, as far as the two ends of a link have to fit each other, how it is set. LLDP has
// no TLVs for trimming, ECN, PFC or CSIG. What a port wants of LLR and CBFC stands in the UE TLVs.
func (n *Node) about() string {
	if n.Switch == nil {
		c, cc := n.FEP.Config(), "none"
		if c.CC != nil {
			cc = c.CC.Algorithm.String()
		}
		return fmt.Sprintf("uetlab end point; cc %s, lb %s", cc, c.LB)
	}
	set := n.Switch.Settings()
	return "uetlab switch; " + strings.Join([]string{aboutTrim(&set), aboutECN(&set), aboutPFC(&set), "csig " + onOff(set.CSIG.Enabled)}, ", ")
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func aboutTrim(set *switchd.Settings) string {
	if !set.Trim.Enabled {
		return "trimming off"
	}
	return fmt.Sprintf("trimming to %d bytes", set.Trim.Size)
}

// aboutECN has the thresholds of the lowest queue that marks.
func aboutECN(set *switchd.Settings) string {
	for q := range set.Queues {
		if c := &set.Queues[q]; c.Kmax > 0 {
			return fmt.Sprintf("ecn %d to %d bytes", c.Kmin, c.Kmax)
		}
	}
	return "ecn off"
}

// aboutPFC has the classes that are lossless.
func aboutPFC(set *switchd.Settings) string {
	var classes []string
	for q := range link.NumQueues {
		if set.Queues[q].Lossless {
			classes = append(classes, fmt.Sprint(q))
		}
	}
	if classes == nil {
		return "pfc off"
	}
	return "pfc for class " + strings.Join(classes, " ")
}
