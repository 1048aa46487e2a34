package integration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/proctest"
)

// wantNoted checks whether the store notes a replay of the queue that may have been cut off.
func wantNoted(t *testing.T, a *counter.Admin, queue string, want bool) {
	t.Helper()
	if at, err := a.Replaying(t.Context(), "/", queue); err != nil || at.IsZero() == want {
		t.Errorf("a replay that may have been cut off is noted at %v, %v; want %v", at, err, want)
	}
}

// TestNoteOfAReplay: the note stays while a message may be both published and in the dead-letter queue: a message of
// this replay, or of an earlier one that did not remove its note.
func TestNoteOfAReplay(t *testing.T) {
	t.Parallel()
	const n = 3
	picked := deadletter.Replay{Filter: deadletter.Filter{IDs: []string{"m1"}}}
	stopped := deadletter.Replay{Target: &deadletter.Target{Key: "none"}}
	for name, tt := range map[string]struct {
		r       deadletter.Replay
		cut     string // cuts the connections "published", before the message is taken off, or "after" the last
		earlier bool   // an earlier one was cut off
		want    bool
	}{
		"everything":                        {},
		"everything, earlier":               {earlier: true},
		"a part":                            {r: deadletter.Replay{Max: 2}},
		"a part, earlier":                   {r: deadletter.Replay{Max: 2}, earlier: true, want: true},
		"maybe a part, earlier":             {r: deadletter.Replay{Max: n}, earlier: true, want: true},
		"picked":                            {r: picked},
		"picked, earlier":                   {r: picked, earlier: true, want: true},
		"no such queue":                     {r: stopped},
		"no such queue, earlier":            {r: stopped, earlier: true, want: true},
		"undecided":                         {cut: "published", want: true},
		"the connection is lost at the end": {cut: "after", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := counters(t).Admin()
			q := withDeadLetters(t, declared(t, "classic"), n)
			if q.Returns = admin; tt.earlier {
				need(t, admin.NoteReplay(t.Context(), "/", q.Name, true))
			}
			own := uniqueName(t, "replay")
			dial := namedDialer(t, own)
			var mu sync.Mutex
			var conns []*amqp.Connection
			q.Dial = func(ctx context.Context) (*amqp.Connection, error) {
				conn, err := dial(ctx)
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
				return conn, err
			}
			cutAt := func(when string, done int) {
				if tt.cut != when || done < n {
					return
				}
				proctest.Eventually(t, time.Minute, "the connections are cut", func() bool {
					mu.Lock()
					defer mu.Unlock()
					_ = cut(t, own)
					return conns[0].IsClosed() && conns[1].IsClosed()
				})
			}
			told := 0
			tt.r.OnMessage = func(*deadletter.Message, error) { told++; cutAt("published", told) }
			q.Progress = func(p deadletter.Progress) { cutAt("after", p.Done) }
			r, err := q.Replay(t.Context(), tt.r)
			if (tt.cut == "published") != (len(r.Undecided) > 0) {
				t.Errorf("undecided %q, %v", r.Undecided, err)
			}
			wantNoted(t, admin, q.Name, tt.want)
		})
	}
}

// forgetful is a store that takes no note of published dead letters.
type forgetful struct{ deadletter.Lanes }

func (forgetful) NotePublished(context.Context, string, string, string, []counter.LaneLetter) error {
	return errors.New("down")
}

// TestNoteOfALaneReplay: a lane whose message fails again leaves none in doubt. One that was published and not taken
// off is in doubt, whatever later replays of lanes do.
func TestNoteOfALaneReplay(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	q, lane := l.open(t, "lane")
	admin := l.counts.Admin()
	q.Returns = admin
	if r, err := q.ReplayLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneFailed) {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, false)
	l.fix()
	down := lane
	down.Store = forgetful{admin}
	if r, err := q.ReplayLane(t.Context(), down); err == nil {
		t.Errorf("%+v", r)
	}
	wantNoted(t, admin, q.Name, true)
	if r, err := q.ReplayLane(t.Context(), lane); err != nil || !r.Released {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, true)
}

// TestNoteBetweenPassesOfALane: another process that replays the queue between two passes may be cut off. The replay of
// the lane does not remove its note.
func TestNoteBetweenPassesOfALane(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	l.fix()
	q, lane := l.open(t, "lane")
	admin := l.counts.Admin()
	reads := 0
	lane.Store = &watchedLane{Lanes: admin, before: func() {
		if reads++; reads == 3 { // after the first pass
			need(t, admin.NoteReplay(t.Context(), "/", q.Name, true))
		}
	}}
	q.Returns = admin
	if r, err := q.ReplayLane(t.Context(), lane); err != nil || r.Passes != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, true)
}
