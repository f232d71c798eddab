package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uetlab/uetlab/internal/ctl"
)

// fetch calls a node for data.
func (d *Daemon) fetch(ctx context.Context, n *node, op string, v any) error {
	return d.fetchMessage(ctx, n, ctl.Message{Op: op}, v)
}

// fetchMessage reads a node's answer to a message.
func (d *Daemon) fetchMessage(ctx context.Context, n *node, m ctl.Message, v any) error {
	r, files, err := n.call(ctx, d, m)
	closeAll(files)
	if err != nil {
		return err
	}
	if len(r.Data) == 0 {
		return fmt.Errorf("node %s: %w", n.name, errNoData)
	}
	if err := json.Unmarshal(r.Data, v); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	return nil
}

var errNoData = errors.New("an answer without data")

// living are the nodes that live, of those that count.
func (d *Daemon) living(counts func(id int) bool) (list []*node) {
	for i, n := range d.nodes {
		if counts(i) && !n.isDead() {
			list = append(list, n)
		}
	}
	return list
}

// askAll asks nodes at once and gives what each has answered, by node; nothing for one that is not asked, or does not answer.
func askAll[T any](ctx context.Context, d *Daemon, wait time.Duration, nodes []*node, ask func(ctx context.Context, n *node) (T, error)) []T {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answers := make([]T, len(d.nodes))
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { // ends with the node's answer or ctx
			if a, err := ask(ctx, n); err == nil {
				answers[n.id] = a
			}
		})
	}
	wg.Wait()
	return answers
}

// fetchAll fetches a list of one kind from nodes at once, as askAll asks.
func fetchAll[T any](ctx context.Context, d *Daemon, wait time.Duration, nodes []*node, kind string) [][]T {
	return askAll(ctx, d, wait, nodes, func(ctx context.Context, n *node) (list []T, err error) {
		err = d.fetch(ctx, n, kind, &list)
		return list, err
	})
}
