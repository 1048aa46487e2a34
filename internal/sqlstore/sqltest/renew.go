package sqltest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// Database is a Store under test, and its database.
type Database struct {
	counter.Store
	Exec  func(sql string)         // runs statements
	Sweep func() (deleted int)     // deletes expired members among the next rows
	Fill  func(members int) string // returns a statement that copies a member of a set, under other names
	Set   string                   // the column of a member's set
	saves func(took time.Duration) // called after each Save
}

// Save is that of counter.Store.
func (d *Database) Save(ctx context.Context, of counter.Queue, changes ...counter.Change) ([]bool, error) {
	began := time.Now()
	defer func() { d.saves(time.Since(began)) }()
	return d.Store.Save(ctx, of, changes...)
}

// Renew has a step and a consumer renew a lane with many places, and prints the time of the longest Save. Each place
// has expired before. Sweeps delete none of them while the renewal lasts, and begin to delete them when it has expired.
func Renew(t *testing.T, d *Database, places int) {
	var longest time.Duration
	d.saves = func(took time.Duration) { longest = max(longest, took) }
	c, m := counter.Over(d, nil), counter.Message{VHost: "/", Queue: "q"}
	step := func(n int64) counter.Position {
		t.Helper()
		m.ID = fmt.Sprint(n)
		s := counter.LaneStep{Message: m, Act: counter.LaneBlock, Owner: "o", Number: n}
		reply, err := c.StepLane(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return reply.Position
	}
	if _, err := c.OwnLanes(t.Context(), m.VHost, m.Queue, "", "o"); err != nil {
		t.Fatal(err)
	}
	set := fmt.Sprintf("lane:%s:places:%d", counter.LaneHash(""), step(1).Since)
	d.Exec(d.Fill(places))
	count := func() int {
		t.Helper()
		n, err := d.Count(t.Context(), counter.Queue{VHost: m.VHost, Name: m.Queue}, set, math.MinInt64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, renew := range map[string]func(){
		"step": func() { step(2) },
		"consumer": func() {
			if _, err := c.NextBlocked(t.Context(), m.VHost, m.Queue, counter.BlockedPage{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		const twoDays = "172800000"
		d.Exec("UPDATE strikes_doc SET expires = expires - " + twoDays)
		d.Exec("DELETE FROM strikes_member WHERE " + d.Set + " = ''")
		longest = 0
		renew()
		t.Logf("%s renews a lane with %d places: the longest Save took %v", name, places, longest.Round(time.Microsecond))
		if longest > time.Second {
			t.Errorf("%s: a Save took %v; a step of a consumer waits for a second", name, longest)
		}
		d.Exec("UPDATE strikes_member SET expires = 5 WHERE " + d.Set + " = '" + set + "'")
		before, deleted := count(), 0
		for range places/1000 + 2 {
			deleted += d.Sweep()
		}
		if after := count(); deleted > 0 || after != before || before < places {
			t.Errorf("%s: %d of %d places are left after a renewal, want all", name, after, before)
		}
	}
	d.Exec("UPDATE strikes_member SET expires = 5 WHERE " + d.Set + " = ''")
	deleted := 0
	for range places/1000 + 2 {
		if deleted += d.Sweep(); deleted > 0 {
			return
		}
	}
	t.Error("no place of a lane was deleted after its renewal had expired")
}
