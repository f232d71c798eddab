package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/uetlab/uetlab/workload"
)

// MeasureRequest has the fabric forget all PDCs and operations and take random choices anew, as at the start of a run, and keeps runs away
// as long as the client listens to the answer.
type MeasureRequest struct {
	Seed uint64 `json:"seed"`
}

// MeasureReady is the one line of the answer.
type MeasureReady struct {
	Ready bool `json:"ready"`
}

// Measure calls f on a fabric that has begun anew, and on which no run can begin until f returns.
func (c *Client) Measure(ctx context.Context, req MeasureRequest, f func() error) error {
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rc, err := c.open(ctx, http.MethodPost, "/v1/measure", nil, b)
	if err != nil {
		return err
	}
	defer rc.Close()
	var r MeasureReady
	if err := json.NewDecoder(rc).Decode(&r); err != nil || !r.Ready {
		return errors.Join(errors.New("measure: the daemon has ended it"), err)
	}
	return f()
}

// Fidelity tells of the measurement that is under way how far its figures can be trusted.
func (c *Client) Fidelity(ctx context.Context) (workload.Fidelity, error) {
	return get[workload.Fidelity](ctx, c, "/v1/measure", nil)
}
