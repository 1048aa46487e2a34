package consumer

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

const (
	// dealEvery is the time between two reads of the deal.
	dealEvery = time.Second
	// dealTimeout bounds a read, which takes two requests if the deal changes, and several to a database.
	dealTimeout = time.Second
	// dealLeaving bounds the last report. If that is lost, the partitions of this process wait until its lease ends.
	dealLeaving = 2 * time.Second
	// dealAlone is how long a process that cannot read the deal waits until it consumes all partitions, because the
	// others may be gone.
	dealAlone = 30 * time.Second
)

// deal has the partitions that this process shall consume, by its last read. All sessions of a Run share it, one after
// the other. One goroutine at a time uses it.
type deal struct {
	settings // of the session on the queue

	me     rules.DealRead
	since  time.Time // of the last read that succeeded, or of begin if that is later
	failed bool      // the last read failed
	known  bool      // me.Consumes is known: a read succeeded, or all have failed for as long as dealAlone
}

func newDeal(s settings) *deal {
	return &deal{settings: s, me: rules.DealRead{Token: token(tokens.Add(1)).String(), Consumer: s.Name,
		Partitions: s.Partitions}}
}

// begin is called before the first read on a connection to the broker. Without a connection the deal is not read, so
// that the lease of this process ends.
func (d *deal) begin() { d.since, d.failed, d.me.Left = time.Now(), false, false }

// read reads the deal. If the store does not reply, its last reply stands. After 30 s without a reply the process
// consumes all partitions: the broker gives it those that no other process consumes.
func (d *deal) read(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, dealTimeout)
	defer cancel()
	mine, err := d.Counter.Deal(reading, d.vhost, d.Queue, d.me)
	switch {
	case err == nil:
		if d.failed {
			d.Logger.Info("the store deals the partitions again", "queue", d.Queue)
		}
		d.since, d.failed, d.known, d.me.Consumes = time.Now(), false, true, mine
		return
	case ctx.Err() != nil:
		return
	case !d.failed:
		d.Logger.Warn("reading the deal of partitions failed; the last one stands", "queue", d.Queue, "error", err)
	}
	d.failed = true
	if time.Since(d.since) >= dealAlone && len(d.me.Consumes) < d.Partitions {
		d.Logger.Warn("reading the deal has failed for long: consuming all partitions that no other process consumes",
			"queue", d.Queue, "error", err)
		d.known, d.me.Consumes = true, make([]int, d.Partitions)
		for i := range d.me.Consumes {
			d.me.Consumes[i] = i
		}
	}
}

// leave tells the store that this process consumes no more, so that the others need not wait for its lease. If the
// store does not reply, the lease ends by itself. A second call does nothing until begin is called.
func (d *deal) leave(ctx context.Context) {
	if d.me.Left {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dealLeaving)
	defer cancel()
	d.me.Left = true
	_, _ = d.Counter.Deal(ctx, d.vhost, d.Queue, d.me)
}
