package ctl

import "github.com/uetlab/uetlab/internal/link"

// PHYPort is a port in the answer to "phy": the direction that begins there, and what was wrong with frames of the other one.
type PHYPort struct {
	Port string `json:"port"` // eth1
	link.PHY
	TxFrames  uint64 `json:"txFrames"` // those of ordered sets left aside
	TxBytes   uint64 `json:"txBytes"`
	FCSErrors uint64 `json:"fcsErrors"` // frames received
	Preambles uint64 `json:"preambles"` // frames received whose preamble was damaged
}
