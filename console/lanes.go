package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/ops"
)

const (
	// lanesPerPage is how many blocked lanes a page lists.
	lanesPerPage = 100
	// lanesOfQueue is how many the page of their queue lists.
	lanesOfQueue = 5
)

// laneList are blocked lanes, longest blocked first.
type laneList struct {
	Queue string
	Lanes []ops.BlockedLane
	Of    int // that are held
	Now   time.Time
}

// lanesView is what the page of blocked lanes shows.
type lanesView struct {
	laneList
	From int
	More string // URL of those that are held for less long
}

// First is the number of the first lane of the page.
func (v lanesView) First() int { return v.From + 1 }

// Last is the number of the last lane of the page.
func (v lanesView) Last() int { return v.From + len(v.Lanes) }

// BlockedFor is for how long a lane is blocked.
func (v laneList) BlockedFor(l ops.BlockedLane) string { return rough(max(v.Now.Sub(l.Since), 0)) }

// At is the partition that has the lane; empty: the queue has none.
func (v laneList) At(l ops.BlockedLane) string { return partitionOf(l.Queue, v.Queue) }

func partitionOf(at, queue string) string {
	if at == queue {
		return ""
	}
	return at
}

// Blocked is how many messages of a lane wait for the one that blocks it.
func (laneList) Blocked(l ops.BlockedLane) int { return l.Messages - 1 }

// lanes returns the blocked lanes of a queue, or of its partitions, and how many are blocked.
func (c *Console) lanes(ctx context.Context, queue string, skip, most int) ([]ops.BlockedLane, int, error) {
	names := []string{queue}
	for _, p := range c.queue(ctx, queue, time.Minute).Value.Partitions {
		names = append(names, p.Queue)
	}
	return ops.Lanes(ctx, c.store, c.opts.VHost, names, skip, most)
}

// lanesPage shows the blocked lanes of a queue.
func (c *Console) lanesPage(r *http.Request) (page, error) {
	queue, err := queueOf(r)
	if err != nil {
		return page{}, err
	}
	ctx, cancel := c.brieflyAsked(r)
	defer cancel()
	from, _ := strconv.Atoi(r.FormValue("from"))
	v := lanesView{laneList: laneList{Queue: queue, Now: time.Now()}, From: max(from, 0)}
	if v.Lanes, v.Of, err = c.lanes(ctx, queue, v.From, lanesPerPage); err != nil {
		return page{}, err
	}
	if next := v.Last(); next < v.Of && len(v.Lanes) > 0 {
		v.More = link("lanes", "queue", queue, "from", strconv.Itoa(next))
	}
	return page{
		Screen: "lanes", Queue: queue, View: v, Title: headlineOfLanes(v),
		Live: link("live", "screen", "lanes", "queue", queue, "from", strconv.Itoa(v.From)),
	}, nil
}

func headlineOfLanes(v lanesView) string {
	switch {
	case v.Of == 0:
		return shown(v.Queue) + ": no lane is blocked"
	case len(v.Lanes) == 0 || v.From > 0:
		return fmt.Sprintf("%s: %s", shown(v.Queue), plural(v.Of, "blocked lane"))
	}
	return fmt.Sprintf("%s: %s, one for %s", shown(v.Queue), plural(v.Of, "blocked lane"), v.BlockedFor(v.Lanes[0]))
}
